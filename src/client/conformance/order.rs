//! What goes out, and in which order.

use super::lab::{Checked, Lab, same};
use super::{Chapter, check};

pub(super) const CHAPTER: Chapter = Chapter {
    name: "order",
    checks: &[
        check!(
            "Deliveries go out oldest event first, over all subjects.",
            oldest_first
        ),
        check!("An answer holds no more than was asked for.", at_most),
        check!(
            "Nothing of a subject goes out while something of it is in hand from an earlier answer; other subjects go on.",
            in_hand
        ),
        check!(
            "Nothing of a subject goes out while an earlier delivery of it waits for its retry; other subjects go on.",
            waiting
        ),
        check!(
            "A claim routes the events that were held for it, oldest first.",
            held
        ),
    ],
};

const NONE: [u64; 0] = [];

async fn oldest_first(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2, 1, 3, 2, 1]).await?;
    same(
        "it gets",
        player.fetch(9, &[]).await?.events(),
        [1, 2, 3, 4, 5, 6],
    )
}

async fn at_most(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2, 3]).await?;
    same("of 2 it gets", player.fetch(2, &[]).await?.events(), [1, 2])?;
    same("of 1 it gets", player.fetch(1, &[]).await?.events(), [3])
}

async fn in_hand(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 1, 2]).await?;
    let first = player.fetch(1, &[]).await?;
    same("first it gets", first.events(), [1])?;
    let other = player.fetch(9, &[]).await?;
    same("meanwhile it gets", other.events(), [3])?;
    let second = player.fetch(9, &first.all("delivered")).await?;
    same("then it gets", second.events(), [2])
}

async fn waiting(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 1, 2]).await?;
    let first = player.fetch(1, &[]).await?;
    let other = player.fetch(9, &first.all("failed")).await?;
    same("meanwhile it gets", other.events(), [3])?;
    same("and", player.fetch(9, &[]).await?.events(), NONE)
}

async fn held(lab: Lab) -> Checked {
    // Nobody claims the work item, and nobody is registered for its actor.
    let mut player = lab.with_events(&[]).await?;
    for _ in 0..3 {
        lab.event(1).await?;
    }
    same(
        "before the claim it gets",
        player.fetch(9, &[]).await?.events(),
        NONE,
    )?;
    player.claim(1).await?;
    let fetched = player.fetch_soon().await?;
    same("after it", fetched.events(), [1, 2, 3])
}
