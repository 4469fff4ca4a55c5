//! Redrive, replay and revival: new deliveries in place of old ones.

use serde_json::{Value, json};

use super::lab::{Checked, Lab, require, same};
use super::player::{Player, number};
use super::taking_back::kill;
use super::{Chapter, check};

pub(super) const CHAPTER: Chapter = Chapter {
    name: "replacing",
    checks: &[
        check!(
            "A redrive appends a new delivery: a new number, attempt 1, and which one it replaces.",
            redrive
        ),
        check!("What was replaced is never replaced twice.", once),
        check!(
            "An outcome for the old delivery ends the one that replaced it.",
            chain
        ),
        check!("A dry run changes nothing.", dry_run),
        check!("A replay goes to the queue that it names.", replay),
        check!(
            "A webhook that is redelivered after its delivery died revives it.",
            revival
        ),
        check!(
            "A webhook that is redelivered after its event was handled is a duplicate.",
            duplicate
        ),
    ],
};

const NONE: [u64; 0] = [];

/// An instance whose one event is dead, and the dead delivery.
async fn with_dead(lab: &Lab) -> Checked<(Player, i64)> {
    let player = lab.with_events(&[1]).await?;
    kill(lab, player).await
}

async fn send_again(lab: &Lab, seq: i64, query: &str) -> Checked<Value> {
    let route = format!("operator/redrive{query}");
    let answer = lab.post(&route, &json!({"seqs": [seq]})).await?;
    answer.success("a redrive")
}

async fn redrive(lab: Lab) -> Checked {
    let (mut player, dead) = with_dead(&lab).await?;
    same(
        "appended are",
        number(&send_again(&lab, dead, "").await?, "appended")?,
        1,
    )?;
    let fetched = player.fetch(9, &[]).await?;
    same("it gets", fetched.attempts(), [(1, 1)])?;
    let new = fetched.of(1)?;
    require(new.seq > dead, "the new delivery has an old number")?;
    same("it replaces", new.redrive_of, Some(dead))
}

async fn once(lab: Lab) -> Checked {
    let (_, dead) = with_dead(&lab).await?;
    send_again(&lab, dead, "").await?;
    same(
        "appended are",
        number(&send_again(&lab, dead, "").await?, "appended")?,
        0,
    )
}

async fn chain(lab: Lab) -> Checked {
    let (mut player, dead) = with_dead(&lab).await?;
    send_again(&lab, dead, "").await?;
    player.commit(&[(dead, "delivered")]).await?;
    same("it gets", player.fetch(9, &[]).await?.events(), NONE)
}

async fn dry_run(lab: Lab) -> Checked {
    let (mut player, dead) = with_dead(&lab).await?;
    let answer = send_again(&lab, dead, "?dryRun=true").await?;
    same("it would append", number(&answer, "appended")?, 1)?;
    same("it gets", player.fetch(9, &[]).await?.events(), NONE)
}

async fn replay(lab: Lab) -> Checked {
    let mut first = lab.with_events(&[1]).await?;
    let fetched = first.fetch(9, &[]).await?;
    first.commit(&fetched.all("delivered")).await?;
    let mut other = Player::new(&lab, "-other");
    other.fetch(0, &[]).await?;
    let body = json!({"instance": other.instance, "events": [fetched.of(1)?.id]});
    lab.post("operator/replay", &body)
        .await?
        .success("a replay")?;
    same(
        "the other gets",
        other.fetch(9, &[]).await?.attempts(),
        [(1, 1)],
    )?;
    same("the first gets", first.fetch(9, &[]).await?.events(), NONE)
}

async fn revival(lab: Lab) -> Checked {
    let (mut player, _) = with_dead(&lab).await?;
    lab.deliver(1, &lab.comment(1, 1)).await?;
    same("it gets", player.fetch(9, &[]).await?.attempts(), [(1, 1)])
}

async fn duplicate(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let fetched = player.fetch(9, &[]).await?;
    player.commit(&fetched.all("delivered")).await?;
    lab.deliver(1, &lab.comment(1, 1)).await?;
    same("it gets", player.fetch(9, &[]).await?.events(), NONE)
}
