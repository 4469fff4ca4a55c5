//! Jira's date texts as moments, so that one moment makes one key.

/// The moment of a Jira date (`2019-10-07T22:42:01.801-0700`) in milliseconds since the epoch.
///
/// A webhook renders dates in the zone of the server, the REST API in the zone of the token's
/// user; a key made of the text would tell one closure apart from itself.
pub(super) fn epoch_millis(text: &str) -> Option<i64> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(moment.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_is_one_number_in_every_zone() {
        for text in [
            "2019-10-07T22:42:01.801-0700",
            "2019-10-08T05:42:01.801+0000",
            "2019-10-08T05:42:01.801Z",
            "2019-10-08T11:12:01.801+05:30",
        ] {
            assert_eq!(epoch_millis(text), Some(1_570_513_321_801), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_moment_has_no_number() {
        for text in [
            "",
            "2019-10-07",
            "2019-10-07T22:42:01.801",
            "yesterday",
            "1570513321801",
        ] {
            assert_eq!(epoch_millis(text), None, "{text}");
        }
    }
}
