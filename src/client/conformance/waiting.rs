//! Fetches that are held while nothing is due.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::lab::{Checked, Lab, beside, require, same};
use super::player::Player;
use super::{Chapter, check};

pub(super) const CHAPTER: Chapter = Chapter {
    name: "waiting",
    checks: &[
        check!(
            "A held fetch is answered as soon as an event is routed to it.",
            event_wakes
        ),
        check!(
            "A held fetch that finds nothing ends with its wait, and may be followed at once.",
            ends
        ),
        check!(
            "A newer fetch takes the place of the held one, which is answered empty.",
            newer
        ),
        check!(
            "An outcome that sets a delivery free ends the wait for it.",
            outcome_wakes
        ),
        check!("A delivery that becomes due ends the wait.", due_wakes),
        check!(
            "A caller that hung up is handed nothing: the next fetch gets it as the first attempt.",
            hung_up
        ),
    ],
};

/// Long enough to tell "at once" from "at the end", below the least that a server grants.
const WAIT_SECONDS: u64 = 10;
/// "At once", on a slow network.
const SOON: Duration = Duration::from_secs(6);
/// Until a fetch has surely reached the server.
const ARRIVAL: Duration = Duration::from_secs(1);

const NONE: [u64; 0] = [];

async fn event_wakes(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[]).await?;
    player.claim(1).await?;
    let began = Instant::now();
    let hold = async {
        player
            .fetch_with(&json!({"wait": WAIT_SECONDS}))
            .await
            .map(|fetched| (fetched, began.elapsed()))
    };
    let meanwhile = async {
        lab.pass(ARRIVAL).await?;
        lab.event(1).await
    };
    let ((fetched, took), _) = beside(hold, meanwhile).await?;
    same("it brings", fetched.events(), [1])?;
    require(took < SOON, format!("it takes {} ms", took.as_millis()))
}

async fn ends(lab: Lab) -> Checked {
    let mut player = Player::new(&lab, "");
    let began = Instant::now();
    let fetched = player.fetch_with(&json!({"wait": 2})).await?;
    let took = began.elapsed().as_secs_f64();
    same("it brings", fetched.events(), NONE)?;
    require(
        (1.9..8.0).contains(&took),
        format!("a wait of 2 s takes {took:.1} s"),
    )?;
    same("pollAfter is", fetched.poll_after, 0.0)
}

async fn newer(lab: Lab) -> Checked {
    let mut held = Player::new(&lab, "");
    let mut newer = held.clone();
    let began = Instant::now();
    let hold = async {
        held.fetch_with(&json!({"wait": WAIT_SECONDS}))
            .await
            .map(|fetched| (fetched, began.elapsed()))
    };
    let meanwhile = async {
        lab.pass(ARRIVAL).await?;
        newer.fetch(9, &[]).await
    };
    let ((fetched, took), _) = beside(hold, meanwhile).await?;
    same("the held one brings", fetched.events(), NONE)?;
    require(
        took < SOON,
        format!("the held one takes {} ms", took.as_millis()),
    )
}

async fn outcome_wakes(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 1]).await?;
    let seq = player.fetch(1, &[]).await?.seq(1)?;
    let committer = player.clone();
    let began = Instant::now();
    let hold = async {
        player
            .fetch_with(&json!({"wait": WAIT_SECONDS}))
            .await
            .map(|fetched| (fetched, began.elapsed()))
    };
    let meanwhile = async {
        lab.pass(ARRIVAL).await?;
        committer.commit(&[(seq, "delivered")]).await
    };
    let ((fetched, took), _) = beside(hold, meanwhile).await?;
    same("it brings", fetched.events(), [2])?;
    require(took < SOON, format!("it takes {} ms", took.as_millis()))
}

async fn due_wakes(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let seq = player.fetch(9, &[]).await?.seq(1)?;
    let began = Instant::now();
    let more = json!({"wait": WAIT_SECONDS, "commit": [{"seq": seq, "outcome": "released"}]});
    let fetched = player.fetch_with(&more).await?;
    same("it brings", fetched.attempts(), [(1, 1)])?;
    let took = began.elapsed();
    require(
        took < SOON,
        format!("what is due in 2 s takes {} ms", took.as_millis()),
    )
}

async fn hung_up(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[]).await?;
    player.claim(1).await?;
    let more = json!({"wait": WAIT_SECONDS});
    // Giving up the request closes its connection.
    drop(tokio::time::timeout(ARRIVAL, player.ask(&more)).await);
    lab.pass(ARRIVAL).await?;
    lab.event(1).await?;
    same(
        "the next fetch brings",
        player.fetch(9, &[]).await?.attempts(),
        [(1, 1)],
    )
}
