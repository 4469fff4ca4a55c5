//! What an instance says of deliveries, and what that does.

use std::time::Duration;

use serde_json::{Value, json};

use super::lab::{Checked, Lab, Stop, require, same};
use super::{Chapter, check};

pub(super) const CHAPTER: Chapter = Chapter {
    name: "outcomes",
    checks: &[
        check!("delivered, spawned and dropped end a delivery.", end),
        check!(
            "committed is one below the lowest delivery that is not settled, and never goes back.",
            committed
        ),
        check!(
            "An outcome for what was never handed out refuses the request and is listed, and nothing of the request is applied.",
            undelivered
        ),
        check!("So does one for a delivery of another queue.", foreign),
        check!(
            "Of two outcomes for one delivery the last counts.",
            last_counts
        ),
        check!(
            "The first outcome that ends a delivery stands.",
            first_stands
        ),
        check!("The same outcomes sent again change nothing.", again),
        check!(
            "An outcome that ends a delivery counts also while it waits for its retry.",
            any_state
        ),
        check!(
            "failed is not due at once, and then as the next attempt.",
            failed
        ),
        check!(
            "failed for a hand-out that the cursor does not cover changes nothing.",
            uncovered
        ),
        check!(
            "released is due again within seconds, as the same attempt.",
            released
        ),
        check!(
            "What is in hand behind a released delivery of its subject goes back with it and comes after it.",
            sent_back
        ),
        check!(
            "A detail is kept with the outcome; one above 500 bytes is refused.",
            detail
        ),
    ],
};

const NONE: [u64; 0] = [];

async fn end(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2, 3]).await?;
    let fetched = player.fetch(9, &[]).await?;
    let outcomes = [
        (fetched.seq(1)?, "delivered"),
        (fetched.seq(2)?, "spawned"),
        (fetched.seq(3)?, "dropped:conformance"),
    ];
    let after = player.fetch(9, &outcomes).await?;
    same("then comes", after.events(), NONE)?;
    require(
        after.committed >= fetched.seq(3)?,
        "committed does not cover them",
    )?;
    // Nor to a new run, which gets everything that is in hand.
    let new = player.restarted("run-2").fetch(9, &[]).await?;
    same("a new run gets", new.events(), NONE)
}

async fn committed(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2, 3]).await?;
    let fetched = player.fetch(9, &[]).await?;
    let (first, last) = (fetched.seq(1)?, fetched.seq(3)?);
    let below = first.saturating_sub(1);
    same("at first it is", fetched.committed, below)?;
    let gap = player.commit(&[(last, "delivered")]).await?;
    same("with the last one settled it is", gap, below)?;
    let second = player.commit(&[(first, "delivered")]).await?;
    same(
        "with the first one settled it is",
        second,
        fetched.seq(2)?.saturating_sub(1),
    )?;
    let all = player.commit(&[(fetched.seq(2)?, "delivered")]).await?;
    require(all >= last, format!("with all settled it is {all}"))
}

async fn undelivered(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2]).await?;
    let first = player.fetch(1, &[]).await?.seq(1)?;
    let unknown = first.saturating_add(1_000_000_000);
    let more = json!({"commit": [{"seq": first, "outcome": "delivered"}, {"seq": unknown, "outcome": "delivered"}]});
    let refused = player.ask(&more).await?;
    let refusal = refused.refusal("the request", 409, "commit-undelivered")?;
    same("listed are", refusal.get("seqs"), Some(&json!([unknown])))?;
    let after = player.fetch(0, &[]).await?;
    require(after.committed < first, "the other outcome is applied")
}

async fn foreign(lab: Lab) -> Checked {
    let mut owner = lab.with_events(&[1]).await?;
    let seq = owner.fetch(9, &[]).await?.seq(1)?;
    let other = super::player::Player::new(&lab, "-other");
    let refused = other.try_commit(&[(seq, "delivered")]).await?;
    let refusal = refused.refusal("the commit", 409, "commit-undelivered")?;
    same("listed are", refusal.get("seqs"), Some(&json!([seq])))
}

async fn last_counts(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let seq = player.fetch(9, &[]).await?.seq(1)?;
    let committed = player
        .commit(&[(seq, "failed"), (seq, "delivered")])
        .await?;
    require(committed >= seq, "the first one counts")
}

/// The story of a delivery, as the gateway tells it.
async fn story(lab: &Lab, event: i64) -> Checked<Value> {
    let story = lab.view(&format!("events/{event}")).await?;
    let delivery = story.pointer("/deliveries/0").cloned();
    delivery.ok_or_else(|| Stop::Broken("the event's story has no delivery".to_owned()))
}

async fn first_stands(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let fetched = player.fetch(9, &[]).await?;
    let seq = fetched.seq(1)?;
    player.commit(&[(seq, "spawned")]).await?;
    player.commit(&[(seq, "dropped:later")]).await?;
    player.commit(&[(seq, "failed")]).await?;
    let story = story(&lab, fetched.of(1)?.id).await?;
    same(
        "the outcome is",
        story.get("outcome"),
        Some(&json!("spawned")),
    )
}

async fn again(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2]).await?;
    let fetched = player.fetch(9, &[]).await?;
    let outcomes = [
        (fetched.seq(1)?, "delivered"),
        (fetched.seq(2)?, "released"),
    ];
    let before = player.commit(&outcomes).await?;
    same("committed is", player.commit(&outcomes).await?, before)?;
    let back = player.fetch_soon().await?;
    same("then comes", back.attempts(), [(2, 1)])
}

async fn any_state(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let seq = player.fetch(9, &[]).await?.seq(1)?;
    player.commit(&[(seq, "failed")]).await?;
    let committed = player.commit(&[(seq, "delivered")]).await?;
    require(committed >= seq, "the outcome does not count")
}

async fn failed(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let seq = player.fetch(9, &[]).await?.seq(1)?;
    let at_once = player.fetch(9, &[(seq, "failed")]).await?;
    same("at once comes", at_once.events(), NONE)?;
    let back = player.fetch_within(lab.patience()).await?;
    if back.deliveries.is_empty() {
        // It may be due later than one is willing to wait.
        lab.may_wait(Duration::from_secs(900))?;
    }
    same("then comes", back.attempts(), [(1, 2)])
}

async fn uncovered(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let seq = player.fetch(9, &[]).await?.seq(1)?;
    let mut old = player.clone();
    // The answer is lost, and the delivery is in another one now.
    player.cursor = Some(0);
    player.fetch(9, &[]).await?;
    old.commit(&[(seq, "failed")]).await?;
    let nothing = player.fetch(9, &[]).await?;
    same("then comes", nothing.events(), NONE)?;
    old.cursor = Some(0);
    same(
        "in hand is still",
        old.fetch(9, &[]).await?.attempts(),
        [(1, 1)],
    )
}

async fn released(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let seq = player.fetch(9, &[]).await?.seq(1)?;
    player.commit(&[(seq, "released")]).await?;
    let back = player.fetch_soon().await?;
    same("then comes", back.attempts(), [(1, 1)])
}

async fn sent_back(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 1, 2, 1]).await?;
    let seq = player.fetch(9, &[]).await?.seq(1)?;
    let others = player.fetch(9, &[(seq, "released")]).await?;
    same("at once comes", others.events(), NONE)?;
    let back = player.fetch_soon().await?;
    same("then comes", back.attempts(), [(1, 1), (2, 1), (4, 1)])
}

async fn detail(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let fetched = player.fetch(9, &[]).await?;
    let item = |detail: String| {
        let seq = fetched.seq(1)?;
        Ok::<_, Stop>(json!({"commit": [{"seq": seq, "outcome": "delivered", "detail": detail}]}))
    };
    let long = player.ask(&item("x".repeat(501))?).await?;
    long.refusal("a detail of 501 bytes", 422, "invalid-field")?;
    let kept = "y".repeat(500);
    player
        .ask(&item(kept.clone())?)
        .await?
        .success("a detail of 500 bytes")?;
    let story = story(&lab, fetched.of(1)?.id).await?;
    same("the detail is", story.get("detail"), Some(&json!(kept)))
}
