//! The frames of Slack, over the socket.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Case, table};
use crate::support::Call;
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, LiveGateway, env};

const ON: [&str; 1] = ["slack-socket"];

/// An envelope, read by another reader than the one under test.
#[derive(Deserialize)]
struct Frame<'a> {
    envelope_id: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

/// A gateway on the socket, and what it is told of a frame.
struct World {
    fakes: Fakes,
    gateway: LiveGateway,
}

impl World {
    fn start() -> Self {
        let fakes = Fakes::start();
        let gateway = LiveGateway::start(&fakes.config(&ON, ""), &env(&[]));
        gateway.wait_for_exactly(&ON);
        Self { fakes, gateway }
    }

    fn push(&self, case: &Case) {
        assert!(self.fakes.slack.push_text(case.text()), "{}", case.file());
    }

    fn envelope(&self, case: &Case) {
        let file = case.file();
        let frame: Frame<'_> = serde_json::from_str(case.text()).unwrap();
        let (id, payload) = (frame.envelope_id.unwrap(), frame.payload.unwrap().get());
        if let Some(user) = case.get("user") {
            let actors = json!({"instance": "laptop", "actors": {"slack": [user]}});
            self.gateway.api("PUT", "/actors", &actors).assert(200);
        }
        self.push(case);
        wait_until(&format!("the ack of {file}"), || {
            self.fakes.slack.seen().is_acked(&id)
        });
        let acks = self.fakes.slack.seen().acks;
        assert_eq!((acks.len(), &acks[0].payload), (1, &None), "{file}");
        let stored = self
            .gateway
            .texts("SELECT state || ' ' || kind || ' ' || transport FROM events");
        let kind = case.get("kind").unwrap();
        let state = match case.get("outcome").unwrap() {
            "dropped" => {
                assert!(stored.is_empty(), "{file}: {stored:?}");
                let record = self.gateway.wait_for_records("gateway.dropped", 1);
                assert_eq!(record[0]["reason"].as_str(), case.get("reason"), "{file}");
                assert_eq!(record[0]["kind"], kind, "{file}");
                return;
            }
            "by-actor" => "routed",
            outcome => outcome,
        };
        assert_eq!(stored, [format!("{state} {kind} socket")], "{file}");
        let target = "/api/v1/gateway/events/1/payload";
        let kept = Call::new(self.gateway.port, "GET", target).send();
        assert_eq!(kept.text(), payload, "{file}");
    }

    /// What no envelope is leaves nothing behind, and the socket is there again.
    fn link_frame(&self, case: &Case) {
        let (file, opened) = (case.file(), self.fakes.sockets_opened());
        self.push(case);
        if case.get("frame") == Some("disconnect") {
            wait_until(&format!("{file} to be heard"), || {
                let seen = self.fakes.slack.seen();
                seen.live.is_empty() || seen.opened > opened
            });
        }
        if !file.contains("too_many_websockets") {
            self.gateway.wait_for_exactly(&ON);
        } else {
            let error = || {
                let details = self.gateway.health()["ingressDetails"]["slack-socket"].clone();
                details["error"].as_str().unwrap_or_default().to_owned()
            };
            wait_until("the reason", || error().contains("too_many_websockets"));
        }
        assert!(self.gateway.stored().is_empty(), "{file}");
        assert!(self.fakes.assert_never_two().acks.is_empty(), "{file}");
    }
}

#[test]
fn every_frame_of_the_socket_becomes_what_its_row_says() {
    let Some((_, cases)) = table("slack_socket") else {
        return;
    };
    // Ids recur among the files, so each gets a gateway of its own.
    for case in cases {
        let world = World::start();
        match case.get("frame").unwrap() {
            "envelope" => world.envelope(&case),
            _ => world.link_frame(&case),
        }
    }
}
