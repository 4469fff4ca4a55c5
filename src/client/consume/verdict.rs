//! What an answer of a receiver, or the end of a command, says of a delivery.

use crate::client::Handled;
use crate::domain::OutcomeReason;

/// What a status says; `option` is the one that names the target.
///
/// A receiver that refuses whatever comes is down: to fail every delivery would kill them all for
/// one wrong setting.
pub(super) fn of_status(status: u16, target: &str, option: &str) -> Handled {
    match status {
        200..=299 => Handled::delivered(),
        300..=399 | 401 | 403 | 404 | 405 => Handled::TargetDown {
            target: target.to_owned(),
            advice: advice(status, option),
        },
        408 | 425 | 429 => Handled::failed(&format!("HTTP {status}")),
        400..=499 => dropped(&format!("http-{status}")),
        _ => Handled::failed(&format!("HTTP {status}")),
    }
}

fn advice(status: u16, option: &str) -> String {
    let what = match status {
        401 => format!("it refuses the signature; name its secret with {option}-secret-env"),
        403 => "it forbids the request; let it take requests from this host".to_owned(),
        404 => format!(
            "it has no such path; {option} must name the whole path, such as /gh-webhook, and the \
             receiver must be enabled"
        ),
        405 => format!("it takes no POST there; {option} must name the path of its webhook"),
        _ => format!("it redirects; give {option} the URL that it redirects to"),
    };
    format!("HTTP {status}: {what}")
}

/// What the exit of a command says; `None` when a signal ended it.
pub(super) fn of_exit(code: Option<i32>, command: &str) -> Handled {
    match code {
        Some(0) => Handled::delivered(),
        Some(65) => dropped("exit-65"),
        Some(code @ (126 | 127)) => Handled::TargetDown {
            target: command.to_owned(),
            advice: format!("exit {code}: the command cannot be run; correct --exec"),
        },
        Some(code) => Handled::failed(&format!("exit {code}")),
        None => Handled::failed("ended by a signal"),
    }
}

/// A drop for a reason that we chose.
pub(super) fn dropped(reason: &str) -> Handled {
    match OutcomeReason::parse(reason) {
        Ok(reason) => Handled::dropped(reason),
        Err(error) => Handled::failed(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word for what is told to the gateway.
    fn word(handled: &Handled) -> String {
        match handled {
            Handled::Outcome { outcome, .. } => outcome.to_string(),
            Handled::TargetDown { .. } => "target down".to_owned(),
        }
    }

    #[test]
    fn each_status_has_its_outcome() {
        for (statuses, expected) in [
            (&[200, 201, 202, 204, 299][..], "delivered"),
            (&[301, 302, 307, 308, 401, 403, 404, 405], "target down"),
            (&[408, 425, 429, 500, 501, 502, 503, 599], "failed"),
            (&[400], "dropped:http-400"),
            (&[409], "dropped:http-409"),
            (&[410], "dropped:http-410"),
            (&[413], "dropped:http-413"),
            (&[422], "dropped:http-422"),
            (&[100, 600], "failed"),
        ] {
            for status in statuses {
                let handled = of_status(*status, "github", "--forward-github");
                assert_eq!(word(&handled), expected, "{status}");
            }
        }
    }

    #[test]
    fn each_exit_has_its_outcome() {
        for (code, expected) in [
            (Some(0), "delivered"),
            (Some(65), "dropped:exit-65"),
            (Some(126), "target down"),
            (Some(127), "target down"),
            (Some(1), "failed"),
            (Some(130), "failed"),
            (None, "failed"),
        ] {
            assert_eq!(word(&of_exit(code, "cmd")), expected, "{code:?}");
        }
    }

    #[test]
    fn each_refusal_of_everything_says_what_to_mend() {
        for status in [302, 401, 403, 404, 405] {
            let Handled::TargetDown { advice, .. } = of_status(status, "t", "--forward-github")
            else {
                panic!("{status}");
            };
            assert!(
                advice.starts_with(&format!("HTTP {status}: it ")),
                "{advice}"
            );
        }
    }
}
