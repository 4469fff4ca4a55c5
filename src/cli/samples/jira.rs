//! Samples of what Jira Cloud sends.

use serde_json::{Value, json};

use super::Sample;
use crate::domain::Timestamp;

/// What a sample is about.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Scene {
    /// `host[:port]` of the site.
    pub(in crate::cli) site: String,
    /// The issue: `KEY-N`.
    pub(in crate::cli) issue: String,
    /// The account id of whoever does it.
    pub(in crate::cli) actor: String,
    /// What a comment says.
    pub(in crate::cli) text: String,
    /// When it happens.
    pub(in crate::cli) now: Timestamp,
    /// The number of the comment or change: a new one is a new event.
    pub(in crate::cli) id: u64,
}

impl Scene {
    fn project(&self) -> &str {
        self.issue
            .split_once('-')
            .map_or(&self.issue, |(project, _)| project)
    }

    /// A moment as Jira writes it, with an offset and without a colon in it.
    fn moment(&self) -> String {
        self.now.to_string().replace('Z', "+0000")
    }

    fn account(&self) -> Value {
        json!({"accountId": self.actor, "displayName": "Sample Person", "active": true})
    }

    fn issue(&self) -> Value {
        json!({
            "id": "10357",
            "key": self.issue,
            "self": format!("https://{}/rest/api/2/10357", self.site),
            "fields": {
                "summary": "Sort the list",
                "labels": [],
                "project": {"key": self.project()},
                "status": {"name": "To Do", "statusCategory": {"key": "new"}},
                "creator": self.account(),
                "resolutiondate": null,
            },
        })
    }

    fn comment(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "self": format!("https://{}/rest/api/2/issue/10357/comment/{}", self.site, self.id),
            "author": self.account(),
            "updateAuthor": self.account(),
            "body": self.text,
            "created": self.moment(),
            "updated": self.moment(),
        })
    }

    /// A payload: some fields, and those that every event has.
    fn event(&self, name: &str, fields: Value) -> Value {
        let mut payload = json!({
            "timestamp": self.now.0,
            "webhookEvent": name,
            "user": self.account(),
            "issue": self.issue(),
        });
        if let (Some(payload), Value::Object(fields)) = (payload.as_object_mut(), fields) {
            payload.extend(fields);
        }
        payload
    }

    fn commented(&self, name: &str) -> Value {
        self.event(name, json!({"comment": self.comment()}))
    }
}

/// All Jira samples.
pub(in crate::cli) const JIRA: &[Sample<Scene>] = &[
    Sample {
        name: "comment_created",
        about: "somebody comments on an issue",
        payload: |scene| scene.commented("comment_created"),
    },
    Sample {
        name: "comment_updated",
        about: "a comment is edited",
        payload: |scene| scene.commented("comment_updated"),
    },
    Sample {
        name: "comment_deleted",
        about: "a comment is deleted",
        payload: |scene| scene.commented("comment_deleted"),
    },
    Sample {
        name: "jira:issue_created",
        about: "an issue is created",
        payload: |scene| {
            let fields = json!({"issue_event_type_name": "issue_created"});
            scene.event("jira:issue_created", fields)
        },
    },
    Sample {
        name: "jira:issue_updated",
        about: "the summary of an issue is changed",
        payload: |scene| {
            let changed = json!({"field": "summary", "fieldtype": "jira", "fieldId": "summary",
                "from": null, "fromString": "Sort it", "to": null, "toString": "Sort the list"});
            let fields = json!({
                "issue_event_type_name": "issue_updated",
                "changelog": {"id": scene.id.to_string(), "items": [changed]},
            });
            scene.event("jira:issue_updated", fields)
        },
    },
    Sample {
        name: "jira:issue_deleted",
        about: "an issue is deleted",
        payload: |scene| scene.event("jira:issue_deleted", json!({})),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::{Arrival, Reference};
    use crate::providers::signature::{sign_jira, verify_jira};
    use crate::providers::{Declared, Secrets, Verdict, jira};

    fn scene() -> Scene {
        Scene {
            site: "acme.atlassian.net".to_owned(),
            issue: "PROJ-123".to_owned(),
            actor: "5b10a2844c20165700ede21g".to_owned(),
            text: "please start".to_owned(),
            now: Timestamp(1_792_332_131_120),
            id: 10082,
        }
    }

    fn arrival(sample: &Sample<Scene>, scene: &Scene) -> Arrival {
        let body = sample.bytes(scene);
        let secrets = Secrets::new("secret".to_owned(), None).unwrap();
        let signature = sign_jira("secret", &body);
        let (verified, _) = verify_jira(&secrets, Some(signature.as_bytes()), body).unwrap();
        let identifier = "x-atlassian-webhook-identifier".to_owned();
        let headers = BTreeMap::from([(identifier, "a-delivery".to_owned())]);
        let declared = Declared {
            jira_site: Some("acme.atlassian.net".to_owned()),
            jira_projects: ["PROJ".to_owned()].into(),
            ..Declared::default()
        };
        match jira::parse(&headers, verified.as_bytes(), &declared, Timestamp(0)).unwrap() {
            Verdict::Append(arrival) => *arrival,
            Verdict::Drop(dropped) => panic!("{}: {dropped:?}", sample.name),
        }
    }

    #[test]
    fn each_sample_names_the_issue_of_its_scene_and_who_did_it() {
        for sample in JIRA {
            let arrival = arrival(sample, &scene());
            assert!(
                matches!(arrival.keys.as_slice(), [Reference::Direct(item)]
                    if item.to_string() == "jira:acme.atlassian.net/PROJ-123"),
                "{}: {:?}",
                sample.name,
                arrival.keys
            );
            assert_eq!(arrival.kind, sample.name);
            assert_eq!(arrival.actor.unwrap().name, scene().actor);
        }
    }

    #[test]
    fn a_comment_with_another_id_is_another_event() {
        let sample = Sample::of(JIRA, "comment_created").unwrap();
        let one = arrival(sample, &scene()).dedup_keys;
        let two = arrival(
            sample,
            &Scene {
                id: 10083,
                ..scene()
            },
        )
        .dedup_keys;
        assert_ne!(one.last(), two.last());
    }
}
