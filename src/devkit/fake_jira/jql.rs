//! As much of JQL as the poller writes.

/// What a query asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) project: String,
    pub(super) labels: Vec<String>,
    pub(super) is_open: bool,
    /// Updated in the last so many minutes.
    pub(super) minutes: Option<i64>,
    pub(super) by_update: bool,
}

impl Query {
    /// `None` for anything that it does not understand.
    pub(super) fn parse(jql: &str) -> Option<Self> {
        let (conditions, order) = jql.split_once(" ORDER BY ")?;
        let mut query = Self {
            by_update: match order {
                "updated ASC" => true,
                "created ASC" => false,
                _ => return None,
            },
            ..Self::default()
        };
        for condition in conditions.split(" AND ") {
            if let Some(project) = condition.strip_prefix("project = ") {
                query.project = unquoted(project)?;
            } else if let Some(label) = condition.strip_prefix("labels = ") {
                query.labels.push(unquoted(label)?);
            } else if let Some(span) = condition.strip_prefix("updated >= ") {
                let span = unquoted(span)?;
                let minutes = span.strip_prefix('-')?.strip_suffix('m')?;
                query.minutes = Some(minutes.parse().ok()?);
            } else if condition == "statusCategory != Done" {
                query.is_open = true;
            } else {
                return None;
            }
        }
        (!query.project.is_empty()).then_some(query)
    }
}

fn unquoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.replace("\\\"", "\"").replace("\\\\", "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_poller_writes_is_understood() {
        let jql =
            r#"project = "KEY" AND labels = "a:b" AND statusCategory != Done ORDER BY created ASC"#;
        let query = Query::parse(jql).unwrap();
        assert_eq!(query.labels, ["a:b"]);
        assert!(query.is_open && !query.by_update);
        let jql = r#"project = "KEY" AND updated >= "-7m" ORDER BY updated ASC"#;
        assert_eq!(Query::parse(jql).unwrap().minutes, Some(7));
        for bad in [
            "",
            "ORDER BY updated ASC",
            "project = KEY ORDER BY updated ASC",
        ] {
            assert_eq!(Query::parse(bad), None, "{bad}");
        }
    }
}
