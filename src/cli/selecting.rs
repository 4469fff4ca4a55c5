//! What people select by: a time as it is or as a distance, a subject by itself or by its work
//! item.

use clap::Args;

use crate::domain::{Millis, Subject, Timestamp, WorkItemRef};
use crate::store::{Period, SubjectFilter};

const SECOND: Millis = 1_000;
const UNITS: [(&str, Millis); 6] = [
    ("s", SECOND),
    ("min", 60 * SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("d", 24 * 3_600 * SECOND),
    ("w", 7 * 24 * 3_600 * SECOND),
];

/// A moment, as given on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// This one.
    At(Timestamp),
    /// So long ago.
    Ago(Millis),
}

/// Why a text is no moment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a distance such as 90s, 30min, 2h or 3d, or a time such as 2026-10-18T14:00:00Z")]
pub(super) struct NoMoment;

impl Moment {
    /// Parses a distance or a time of RFC 3339.
    ///
    /// # Errors
    /// When it is neither.
    pub(super) fn parse(text: &str) -> Result<Self, NoMoment> {
        if let Ok(moment) = text.parse::<jiff::Timestamp>() {
            return Ok(Self::At(Timestamp(moment.as_millisecond())));
        }
        let text = text.strip_suffix("ago").unwrap_or(text).trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).ok_or(NoMoment)?;
        let number: Millis = number.parse().or(Err(NoMoment))?;
        let unit = unit.trim();
        let length = UNITS.iter().find(|(word, _)| *word == unit);
        let (_, length) = length.ok_or(NoMoment)?;
        number.checked_mul(*length).map(Self::Ago).ok_or(NoMoment)
    }

    /// The moment, seen from now.
    pub(super) fn seen_from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Ago(distance) => now.plus(distance.saturating_neg()),
        }
    }
}

/// What a verb that selects by subject and time is narrowed to; which moment counts, the verb says.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Narrowed {
    /// Only of this subject or work item; `unassigned` for what has none
    #[arg(long, value_name = "SUBJECT", value_parser = subject_filter)]
    pub(super) subject: Option<SubjectFilter>,
    /// Only from then on: a time, or a distance such as 30min, 2h or 3d
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub(super) since: Option<Moment>,
    /// Only before then
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub(super) until: Option<Moment>,
}

impl Narrowed {
    /// The span, seen from now.
    pub(super) fn period(&self, now: Timestamp) -> Period {
        period(self.since, self.until, now)
    }

    /// All of it as the API takes it.
    pub(super) fn texts(&self, now: Timestamp) -> [(&'static str, Option<String>); 3] {
        let (since, until) = ends(self.period(now));
        let subject = self.subject.as_ref().and_then(shown_subject);
        [("subject", subject), ("since", since), ("until", until)]
    }
}

/// The span between two moments, each of which may be left out.
fn period(since: Option<Moment>, until: Option<Moment>, now: Timestamp) -> Period {
    let all = Period::default();
    Period {
        since: since.map_or(all.since, |moment| moment.seen_from(now)),
        until: until.map_or(all.until, |moment| moment.seen_from(now)),
    }
}

/// The ends of a span, where it has them, as the API takes them.
pub(super) fn ends(period: Period) -> (Option<String>, Option<String>) {
    let all = Period::default();
    let shown = |moment: Timestamp, bound: Timestamp| (moment != bound).then(|| moment.to_string());
    (
        shown(period.since, all.since),
        shown(period.until, all.until),
    )
}

/// Why a text names no subject.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give a subject such as loop-github-octo-repo-15, its work item such as github:octo/repo#15, \
     or unassigned"
)]
pub(super) struct NoSubject;

/// Parses a subject, or the work item whose subject is meant, or `unassigned`.
///
/// # Errors
/// When it is none of these.
pub(super) fn subject_filter(text: &str) -> Result<SubjectFilter, NoSubject> {
    if text == Subject::UNASSIGNED {
        return Ok(SubjectFilter::Unassigned);
    }
    subject(text).map(SubjectFilter::Is)
}

/// As [`subject_filter`], without `unassigned`.
///
/// # Errors
/// When it is neither.
pub(super) fn subject(text: &str) -> Result<Subject, NoSubject> {
    let of_work_item = || WorkItemRef::parse(text).map(|work_item| work_item.subject());
    Subject::parse(text)
        .or_else(|_| of_work_item())
        .or(Err(NoSubject))
}

/// The subject as the API takes it; none for all of them.
pub(super) fn shown_subject(filter: &SubjectFilter) -> Option<String> {
    match filter {
        SubjectFilter::Any => None,
        SubjectFilter::Unassigned => Some(Subject::UNASSIGNED.to_owned()),
        SubjectFilter::Is(subject) => Some(subject.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_distance_or_a_time() {
        let now = Timestamp(10_000_000_000);
        for (text, moment) in [
            ("90s", 10_000_000_000 - 90_000),
            ("30 min", 10_000_000_000 - 1_800_000),
            ("2h ago", 10_000_000_000 - 7_200_000),
            ("3d", 10_000_000_000 - 259_200_000),
            ("1970-01-01T00:00:01Z", 1_000),
            ("1970-01-01T02:00:00+02:00", 0),
        ] {
            let parsed = Moment::parse(text).unwrap();
            assert_eq!(parsed.seen_from(now), Timestamp(moment), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "5",
            "h",
            "-2h",
            "2 fortnights",
            "99999999999999999w",
        ] {
            assert_eq!(Moment::parse(text), Err(NoMoment), "{text}");
        }
    }

    #[test]
    fn a_subject_is_given_by_itself_or_by_its_work_item() {
        for text in ["loop-github-octo-repo-15", "github:octo/repo#15"] {
            let filter = subject_filter(text).unwrap();
            let shown = shown_subject(&filter).unwrap();
            assert_eq!(shown, "loop-github-octo-repo-15", "{text}");
        }
        let unassigned = subject_filter("unassigned").unwrap();
        assert_eq!(shown_subject(&unassigned).unwrap(), "unassigned");
        assert_eq!(subject("unassigned"), Err(NoSubject));
        assert_eq!(subject_filter("octo/repo"), Err(NoSubject));
        assert_eq!(shown_subject(&SubjectFilter::Any), None);
    }

    #[test]
    fn a_span_is_sent_with_the_ends_that_it_has() {
        let now = Timestamp(3_600_000);
        let open = period(None, None, now);
        assert_eq!(ends(open), (None, None));
        let since = period(Some(Moment::Ago(3_600_000)), None, now);
        assert_eq!(
            ends(since),
            (Some("1970-01-01T00:00:00.000Z".to_owned()), None)
        );
    }
}
