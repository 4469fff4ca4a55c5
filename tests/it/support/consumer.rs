//! An instance's side of its queue: what a client says of itself, and what it remembers.

use serde_json::{Value, json};

use super::{Call, Reply, TestGateway};

/// One process of an installation.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    pub(crate) instance: String,
    pub(crate) peer: String,
    pub(crate) run: Option<String>,
    /// The last response that it received; `None` sends no cursor at all.
    pub(crate) cursor: Option<i64>,
}

impl Consumer {
    /// The first run of the installation whose claims [`TestGateway::claim`] makes.
    pub(crate) fn new(instance: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            peer: format!("peer-of-{instance}"),
            run: Some("run-1".to_owned()),
            cursor: Some(0),
        }
    }

    /// The same installation, started again.
    pub(crate) fn restarted(&self, run: &str) -> Self {
        Self {
            run: Some(run.to_owned()),
            cursor: Some(0),
            ..self.clone()
        }
    }

    /// Another installation under the same name.
    pub(crate) fn rival(&self) -> Self {
        Self {
            peer: format!("rival-of-{}", self.instance),
            ..self.restarted("run-of-a-rival")
        }
    }

    /// The plainest client: no run and no cursor.
    pub(crate) fn plain(instance: &str) -> Self {
        Self {
            run: None,
            cursor: None,
            ..Self::new(instance)
        }
    }

    /// A body that says who asks, with more fields.
    pub(crate) fn body(&self, more: &Value) -> Value {
        let mut body = json!({"instance": self.instance, "peer": self.peer});
        if let Some(run) = &self.run {
            body["run"] = json!(run);
        }
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        body
    }

    /// A fetch, with more fields.
    pub(crate) fn fetch_call(&self, gateway: &TestGateway, more: &Value) -> Call {
        let mut body = self.body(&json!({"max": 64}));
        if let Some(cursor) = self.cursor {
            body["cursor"] = json!(cursor);
        }
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        gateway.call("POST", "/api/v1/gateway/fetch").json(&body)
    }

    /// Fetches, and keeps the cursor of the answer as a client does.
    #[track_caller]
    pub(crate) fn fetch(
        &mut self,
        gateway: &TestGateway,
        max: u64,
        commit: &[(i64, &str)],
    ) -> Value {
        let answer = self.lose(gateway, max, commit);
        self.cursor = answer["cursor"].as_i64();
        answer
    }

    /// Fetches, but never learns what was answered.
    #[track_caller]
    pub(crate) fn lose(&self, gateway: &TestGateway, max: u64, commit: &[(i64, &str)]) -> Value {
        self.ask(gateway, max, commit).assert(200)
    }

    /// Fetches, whatever is answered.
    pub(crate) fn ask(&self, gateway: &TestGateway, max: u64, commit: &[(i64, &str)]) -> Reply {
        let more = json!({"max": max, "commit": outcomes(commit)});
        self.fetch_call(gateway, &more).send()
    }

    /// Sends outcomes without fetching.
    pub(crate) fn commit(&self, gateway: &TestGateway, commit: &[(i64, &str)]) -> Reply {
        let mut body = self.body(&json!({"commit": outcomes(commit)}));
        if let Some(cursor) = self.cursor {
            body["cursor"] = json!(cursor);
        }
        gateway.api("POST", "/commit", &body)
    }

    /// Sends a registration of this process.
    pub(crate) fn put(&self, gateway: &TestGateway, path: &str, more: &Value) -> Reply {
        gateway.api("PUT", path, &self.body(more))
    }
}

fn outcomes(pairs: &[(i64, &str)]) -> Value {
    pairs
        .iter()
        .map(|(seq, outcome)| json!({"seq": seq, "outcome": outcome}))
        .collect()
}

/// All deliveries of an answer with one outcome.
pub(crate) fn all_with(answer: &Value, outcome: &'static str) -> Vec<(i64, &'static str)> {
    seqs(answer).into_iter().map(|seq| (seq, outcome)).collect()
}

/// The numbers of an answer's deliveries.
#[track_caller]
pub(crate) fn seqs(answer: &Value) -> Vec<i64> {
    shown(answer).into_iter().map(|(seq, _)| seq).collect()
}

/// The numbers of an answer's deliveries, with their attempts.
#[track_caller]
pub(crate) fn shown(answer: &Value) -> Vec<(i64, u64)> {
    let deliveries = answer["deliveries"].as_array();
    let deliveries = deliveries.unwrap_or_else(|| panic!("not the answer of a fetch: {answer}"));
    deliveries
        .iter()
        .map(|delivery| {
            assert_eq!(delivery["attempt"], delivery["event"]["attempt"]);
            let seq = delivery["seq"].as_i64().unwrap();
            (seq, delivery["attempt"].as_u64().unwrap())
        })
        .collect()
}

/// No deliveries.
pub(crate) const NONE: [i64; 0] = [];
