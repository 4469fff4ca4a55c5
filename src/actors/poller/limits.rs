//! What a status means. One status can mean several things: the headers and the body decide.

use std::time::Duration;

use super::failure::{Failure, Limit};
use super::moment;
use crate::domain::Timestamp;
use crate::providers::{clipped, lenient};

/// The least wait after a secondary limit that names none.
pub(super) const SECONDARY_WAIT_MIN: Duration = Duration::from_secs(60);
/// What a server asks for beyond this is not believed; limits are counted by the hour.
const WAIT_MAX: Duration = Duration::from_secs(2 * 3600);
/// Clocks differ, and a limit is back only after its second has passed.
const RESET_MARGIN: Duration = Duration::from_secs(1);

static MESSAGE: lenient::Want = lenient::Want::Object(&[("message", lenient::Want::Leaf)]);

/// The part of an answer that a verdict is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) status: u16,
    /// `Retry-After`.
    pub(super) retry_after: Option<&'a str>,
    /// `x-ratelimit-remaining`.
    pub(super) remaining: Option<&'a str>,
    /// `x-ratelimit-reset`: seconds since the epoch (GitHub) or a date (Jira).
    pub(super) reset: Option<&'a str>,
    /// The body of a refusal, as far as it was read.
    pub(super) body: &'a str,
    /// The moment of the answer: the server's if it tells, because resets are told in its time.
    pub(super) now: Timestamp,
}

impl Told<'_> {
    /// Why an answer that is neither a success nor a redirect cannot be used.
    pub(super) fn failure(&self) -> Failure {
        match self.status {
            401 => Failure::Unauthorized,
            403 | 429 => self.limit().unwrap_or_else(|| match self.status {
                403 => Failure::Forbidden(self.message()),
                _ => Failure::Limited {
                    limit: Limit::Secondary,
                    wait: SECONDARY_WAIT_MIN,
                },
            }),
            404 => Failure::NotFound,
            410 => Failure::Gone(self.message()),
            status @ 500.. => Failure::Server {
                status,
                wait: self.retry_after(),
            },
            status => Failure::Unexpected {
                status,
                message: self.message(),
            },
        }
    }

    /// How long to ask nothing more, when the answer says that it was the last one for now.
    pub(super) fn spent(&self) -> Option<Duration> {
        let is_spent = self.remaining.and_then(|left| left.trim().parse().ok()) == Some(0_u64);
        is_spent.then(|| self.until_reset()).flatten()
    }

    fn limit(&self) -> Option<Failure> {
        let limited = |limit, wait| Failure::Limited { limit, wait };
        if let Some(wait) = self.retry_after() {
            return Some(limited(Limit::Secondary, wait));
        }
        if let Some(wait) = self.spent() {
            return Some(limited(Limit::Primary, wait));
        }
        if self.status == 429
            && let Some(wait) = self.until_reset()
        {
            return Some(limited(Limit::Primary, wait));
        }
        let text = self.body.to_ascii_lowercase();
        let is_limit = text.contains("rate limit") || text.contains("abuse detection");
        is_limit.then(|| limited(Limit::Secondary, SECONDARY_WAIT_MIN))
    }

    fn retry_after(&self) -> Option<Duration> {
        let text = self.retry_after?.trim();
        let wait = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => self.until(moment::parse_http_date(text)?),
        };
        Some(wait.min(WAIT_MAX))
    }

    fn until_reset(&self) -> Option<Duration> {
        let text = self.reset?.trim();
        let reset = match text.parse::<i64>() {
            Ok(seconds) => Timestamp(seconds.saturating_mul(1000)),
            Err(_) => moment::parse(text)?,
        };
        Some(self.until(reset).saturating_add(RESET_MARGIN).min(WAIT_MAX))
    }

    fn until(&self, then: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(then.since(self.now)).unwrap_or(0))
    }

    /// What the server says, cut: it is somebody else's text.
    fn message(&self) -> String {
        let found = lenient::read(self.body.trim(), &MESSAGE).ok();
        let message = found.and_then(|node| node.text("message").map(|text| clipped(&text)));
        message.unwrap_or_else(|| "refused".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_790_000_000_000);

    fn told(status: u16) -> Told<'static> {
        Told {
            status,
            retry_after: None,
            remaining: None,
            reset: None,
            body: "",
            now: NOW,
        }
    }

    fn limited(limit: Limit, seconds: u64) -> Failure {
        Failure::Limited {
            limit,
            wait: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn a_403_is_a_permission_a_primary_or_a_secondary_limit_by_what_it_says() {
        let primary = Told {
            remaining: Some("0"),
            reset: Some("1790000600"),
            ..told(403)
        };
        assert_eq!(primary.failure(), limited(Limit::Primary, 601));
        let with_retry = Told {
            retry_after: Some("17"),
            ..primary
        };
        assert_eq!(with_retry.failure(), limited(Limit::Secondary, 17));
        let by_text = Told {
            body: r#"{"message": "You have exceeded a secondary rate limit."}"#,
            remaining: Some("4000"),
            reset: Some("1790000600"),
            ..told(403)
        };
        assert_eq!(by_text.failure(), limited(Limit::Secondary, 60));
        let permission = Told {
            body: r#"{"message": "Resource not accessible by personal access token"}"#,
            remaining: Some("4000"),
            ..told(403)
        };
        let text = "Resource not accessible by personal access token".to_owned();
        assert_eq!(permission.failure(), Failure::Forbidden(text));
        assert_eq!(
            told(403).failure(),
            Failure::Forbidden("refused".to_owned())
        );
    }

    #[test]
    fn a_429_is_always_a_limit() {
        assert_eq!(told(429).failure(), limited(Limit::Secondary, 60));
        let jira = Told {
            reset: Some("2026-09-21T14:53:25Z"),
            ..told(429)
        };
        let Failure::Limited { wait, .. } = jira.failure() else {
            panic!("no limit");
        };
        assert!(wait < Duration::from_secs(7200));
        let dated = Told {
            retry_after: Some("Mon, 21 Sep 2026 14:13:30 GMT"),
            ..told(429)
        };
        assert_eq!(dated.failure(), limited(Limit::Secondary, 10));
    }

    #[test]
    fn a_wait_is_never_longer_than_two_hours() {
        for (retry_after, reset) in [
            (Some("999999999999"), None),
            (None, Some("99999999999999999")),
        ] {
            let told = Told {
                retry_after,
                reset,
                remaining: Some("0"),
                ..told(429)
            };
            assert_eq!(told.failure().wait(), Some(WAIT_MAX));
        }
        let past = Told {
            remaining: Some("0"),
            reset: Some("1"),
            ..told(403)
        };
        assert_eq!(past.failure(), limited(Limit::Primary, 1));
    }

    #[test]
    fn other_statuses_say_what_to_do() {
        assert_eq!(told(401).failure(), Failure::Unauthorized);
        assert_eq!(told(404).failure(), Failure::NotFound);
        assert!(told(410).failure().is_absence());
        let busy = Told {
            retry_after: Some("5"),
            ..told(503)
        };
        assert_eq!(busy.failure().wait(), Some(Duration::from_secs(5)));
        assert!(!busy.failure().needs_mending());
        assert!(told(422).failure().needs_mending());
    }

    #[test]
    fn the_last_request_of_an_hour_says_so() {
        let told = Told {
            remaining: Some("0"),
            reset: Some("1790000009"),
            ..told(200)
        };
        assert_eq!(told.spent(), Some(Duration::from_secs(10)));
        let left = Told {
            remaining: Some("1"),
            ..told
        };
        assert_eq!(left.spent(), None);
    }
}
