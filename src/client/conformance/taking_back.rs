//! What is taken back from whom, and what that makes of it.

use super::lab::{Checked, Lab, require, same};
use super::player::Player;
use super::{Chapter, check};

pub(super) const CHAPTER: Chapter = Chapter {
    name: "taking back",
    checks: &[
        check!(
            "What a vanished run had in hand comes to the next run, as the next attempt.",
            vanished
        ),
        check!("What vanished in company goes out one by one.", suspects),
        check!(
            "What vanished in company and is handled then dies of nothing.",
            innocent
        ),
        check!(
            "A delivery that kills its consumer again and again is dead in the end, is listed so, and its subject moves on.",
            poison
        ),
        check!(
            "What was lost three times running goes out alone.",
            lost_often
        ),
        check!(
            "A clean stop costs nothing: what was released comes as the same attempt, in company.",
            clean_stop
        ),
    ],
};

/// A server that lets a delivery vanish more often than this has no bound.
const STRIKES_MAX: usize = 20;

async fn vanished(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    player.fetch(9, &[]).await?;
    let next = player.restarted("run-2").fetch(9, &[]).await?;
    same("the next run gets", next.attempts(), [(1, 2)])
}

async fn suspects(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2]).await?;
    player.fetch(9, &[]).await?;
    let mut next = player.restarted("run-2");
    let first = next.fetch(9, &[]).await?;
    same("the next run gets", first.attempts(), [(1, 2)])?;
    lab.event(1).await?;
    same(
        "meanwhile it gets",
        next.fetch(9, &[]).await?.events(),
        [0_u64; 0],
    )?;
    let second = next.fetch(9, &first.all("delivered")).await?;
    same("then", second.attempts(), [(2, 2)])?;
    let rest = next.fetch(9, &second.all("delivered")).await?;
    same("then", rest.attempts(), [(3, 1)])
}

async fn innocent(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2, 3]).await?;
    player.fetch(9, &[]).await?;
    let mut next = player.restarted("run-2");
    let mut outcomes = Vec::new();
    let mut highest = 0;
    for _ in 0..3 {
        let fetched = next.fetch(9, &outcomes).await?;
        same("an answer holds", fetched.deliveries.len(), 1)?;
        outcomes = fetched.all("delivered");
        highest = outcomes.first().map_or(highest, |(seq, _)| *seq);
    }
    let after = next.fetch(9, &outcomes).await?;
    same("then comes", after.events(), [0_u64; 0])?;
    require(after.committed >= highest, "they are not settled")
}

/// Restarts until the first event is handed out no more; returns the last run.
pub(super) async fn kill(lab: &Lab, mut player: Player) -> Checked<(Player, i64)> {
    let fetched = player.fetch(1, &[]).await?;
    let seq = fetched.seq(1)?;
    for run in 2..=STRIKES_MAX {
        player = player.restarted(&format!("run-{run}"));
        let fetched = player.fetch(1, &[]).await?;
        if !fetched.events().contains(&1) {
            return Ok((player, seq));
        }
    }
    let instance = lab.instance("");
    Err(super::Stop::Broken(format!(
        "{instance} vanished {STRIKES_MAX} times with it, and it is still handed out"
    )))
}

async fn poison(lab: Lab) -> Checked {
    let player = lab.with_events(&[1, 1]).await?;
    let (mut player, seq) = kill(&lab, player).await?;
    let dead = lab.view("dead?limit=1000").await?;
    let dead = dead.get("dead").and_then(serde_json::Value::as_array);
    let is_it = |row: &serde_json::Value| row.get("seq").is_some_and(|number| *number == seq);
    require(
        dead.into_iter().flatten().any(is_it),
        "it is not listed as dead",
    )?;
    // The second of its subject was handed out in the same fetch that left the first.
    player.cursor = Some(0);
    same("then comes", player.fetch(9, &[]).await?.events(), [2])
}

async fn lost_often(lab: Lab) -> Checked {
    let player = lab.with_events(&[1, 2]).await?;
    for _ in 0..3 {
        same(
            "an answer that is lost had",
            player.lose(9).await?.events(),
            [1, 2],
        )?;
    }
    same("then comes", player.lose(9).await?.events(), [1])
}

async fn clean_stop(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2]).await?;
    let fetched = player.fetch(9, &[]).await?;
    player.commit(&fetched.all("released")).await?;
    let mut next = player.restarted("run-2");
    let back = next.fetch_soon().await?;
    same("the next run gets", back.attempts(), [(1, 1), (2, 1)])
}
