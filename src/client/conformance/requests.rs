//! What a request may say, and the form of answers.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::lab::{Checked, Lab, Stop, require, same};
use super::player::Player;
use super::{Chapter, check};
use crate::digest;

pub(super) const CHAPTER: Chapter = Chapter {
    name: "requests",
    checks: &[
        check!(
            "An event reaches the instance that claims its subject, and no other.",
            reaches
        ),
        check!(
            "An envelope has its eleven fields, and the payload is byte for byte what arrived.",
            payload
        ),
        check!("A fetch needs a peer, and nothing else.", needs_peer),
        check!(
            "A number that is negative or none is refused, and the field is named.",
            negative
        ),
        check!("What is out of range is clamped.", clamped),
        check!("Unknown fields are ignored.", unknown_fields),
        check!(
            "A fetch with max 0 sends outcomes and renews, hands out nothing and does not wait.",
            max_zero
        ),
        check!(
            "An empty answer without a wait says to poll after 1 to 5 s, one with deliveries at once.",
            poll_after
        ),
        check!(
            "A malformed outcome is refused, and named by its place.",
            malformed_outcome
        ),
        check!("A body that is no JSON object is refused.", no_object),
    ],
};

async fn reaches(lab: Lab) -> Checked {
    let mut claimant = lab.with_events(&[1]).await?;
    let mut other = Player::new(&lab, "-other");
    same(
        "the claimant gets",
        claimant.fetch(9, &[]).await?.events(),
        [1],
    )?;
    same(
        "another instance gets",
        other.fetch(9, &[]).await?.events(),
        [0_u64; 0],
    )
}

async fn payload(lab: Lab) -> Checked {
    let claimant = lab.claimant(&[1]).await?;
    // Spaces, an escape that is no character, and a number that is not written so again.
    let exact = format!(
        "{{ \"exact\" : [1.0, \"\\ud83d\", 1e2] ,{}",
        lab.comment(1, 1).trim_start_matches('{')
    );
    lab.deliver(1, &exact).await?;
    let answer = claimant.ask(&json!({})).await?;
    let exact_answer: Exact = serde_json::from_slice(&answer.text)
        .map_err(|error| Stop::Broken(format!("the answer is malformed: {error}")))?;
    let Some(ExactDelivery { seq, event }) = exact_answer.deliveries.first() else {
        return Err(Stop::Broken("it is not handed out".to_owned()));
    };
    lab.note_delivery(&claimant, *seq);
    let fields: Vec<&str> = event.keys().map(String::as_str).collect();
    let expected = [
        "attempt",
        "deliveryId",
        "headers",
        "id",
        "kind",
        "payload",
        "provider",
        "receivedAt",
        "source",
        "subject",
        "workItem",
    ];
    same("the fields of an envelope are", fields, expected)?;
    let out = event
        .get("payload")
        .map(|payload| digest::sha256_hex(payload.get().as_bytes()));
    require(
        out == Some(digest::sha256_hex(exact.as_bytes())),
        "the SHA-256 of the payload is not that of what arrived",
    )
}

/// The answer of a fetch with the exact text of what events hold.
#[derive(Deserialize)]
struct Exact {
    deliveries: Vec<ExactDelivery>,
}

#[derive(Deserialize)]
struct ExactDelivery {
    seq: i64,
    event: BTreeMap<String, Box<RawValue>>,
}

async fn needs_peer(lab: Lab) -> Checked {
    let nobody = json!({"instance": lab.instance("")});
    lab.post("fetch", &nobody)
        .await?
        .names_field("a fetch without a peer", "peer")?;
    let least = json!({"instance": lab.instance(""), "peer": "peer-of-the-least"});
    lab.post("fetch", &least)
        .await?
        .success("a fetch with a peer alone")
        .map(drop)
}

async fn negative(lab: Lab) -> Checked {
    let player = Player::new(&lab, "");
    for (field, value) in [
        ("wait", json!(-1)),
        ("lease", json!(-0.5)),
        ("max", json!(-1)),
        ("cursor", json!(-1)),
        ("wait", json!("soon")),
        ("max", json!("many")),
    ] {
        let answer = player.ask(&json!({field: value})).await?;
        answer.names_field(&format!("{field} {value}"), field)?;
    }
    Ok(())
}

async fn clamped(lab: Lab) -> Checked {
    let mut player = Player::new(&lab, "");
    const FOREVER: f64 = 1e9;
    let most = player
        .fetch_with(&json!({"max": 1_000_000_000, "lease": FOREVER}))
        .await?;
    require(most.expires_in < FOREVER, "a lease of 10^9 s is granted")?;
    let least = player.fetch_with(&json!({"lease": 0})).await?;
    require(least.expires_in > 0.0, "a lease of 0 s is granted")
}

async fn unknown_fields(lab: Lab) -> Checked {
    let player = Player::new(&lab, "");
    let answer = player.ask(&json!({"later": {"version": 2}})).await?;
    answer
        .success("a fetch with a field of a later version")
        .map(drop)
}

async fn max_zero(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2]).await?;
    let seq = player.fetch(1, &[]).await?.seq(1)?;
    let began = tokio::time::Instant::now();
    let more = json!({"max": 0, "wait": 20, "commit": [{"seq": seq, "outcome": "delivered"}]});
    let renewed = player.fetch_with(&more).await?;
    require(began.elapsed().as_secs() < 10, "it is held")?;
    same("it hands out", renewed.events(), [0_u64; 0])?;
    require(renewed.expires_in > 0.0, "it leaves no lease")?;
    require(renewed.committed >= seq, "its outcome is not applied")
}

async fn poll_after(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let full = player.fetch(9, &[]).await?;
    same("after an answer with deliveries", full.poll_after, 0.0)?;
    let empty = player.fetch(9, &[]).await?.poll_after;
    require(
        (1.0..=5.0).contains(&empty),
        format!("after an empty answer: {empty}"),
    )
}

async fn malformed_outcome(lab: Lab) -> Checked {
    let player = Player::new(&lab, "");
    for outcome in ["done", "Delivered", "dropped", "dropped:", "dropped:No"] {
        let more = json!({"commit": [{"seq": 1, "outcome": outcome}]});
        let answer = player.ask(&more).await?;
        answer.names_field(&format!("the outcome {outcome:?}"), "commit[0].outcome")?;
    }
    Ok(())
}

async fn no_object(lab: Lab) -> Checked {
    let answer = lab.post("fetch", &json!(["no", "object"])).await?;
    answer.refusal("an array", 400, "invalid-payload").map(drop)
}
