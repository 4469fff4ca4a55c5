//! What a client has received, told by the cursor; and what becomes of clients that get it wrong.

use super::lab::{Checked, Lab, require, same};
use super::player::Player;
use super::{Chapter, check};

pub(super) const CHAPTER: Chapter = Chapter {
    name: "cursors",
    checks: &[
        check!(
            "Every answer with deliveries has a cursor above every cursor and delivery before it.",
            grows
        ),
        check!("An empty answer returns the cursor of the request.", empty),
        check!("What an echoed cursor covers stays in hand.", stays),
        check!(
            "What was in an answer that never arrived goes out again as the same attempt.",
            lost
        ),
        check!(
            "A cursor that was never given counts as 0, so one that a client computes from deliveries gets everything in hand again.",
            computed
        ),
        check!(
            "A client whose cursor is always 0 gets everything in hand again, as the same attempt.",
            always_zero
        ),
        check!(
            "A client that keeps its run id over restarts gets what it had in hand again as the same attempt: nobody can know that it died.",
            same_run
        ),
        check!(
            "A client without a run gets back what it did not commit, as the next attempt.",
            no_run
        ),
        check!(
            "A client without a run that echoes its cursor keeps what it has in hand.",
            no_run_echoes
        ),
    ],
};

const NONE: [u64; 0] = [];

async fn grows(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2]).await?;
    let first = player.fetch(1, &[]).await?;
    let second = player.fetch(1, &[]).await?;
    let highest = second.seq(2)?;
    require(
        first.cursor >= first.seq(1)? && second.cursor > first.cursor && second.cursor >= highest,
        format!(
            "cursors {} and {} with delivery {highest}",
            first.cursor, second.cursor
        ),
    )
}

async fn empty(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    let first = player.fetch(9, &[]).await?.cursor;
    same("the cursor is", player.lose(9).await?.cursor, first)
}

async fn stays(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2]).await?;
    player.fetch(1, &[]).await?;
    same(
        "the next fetch brings",
        player.fetch(9, &[]).await?.events(),
        [2],
    )?;
    same("and the next", player.fetch(9, &[]).await?.events(), NONE)
}

async fn lost(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2]).await?;
    player.fetch(1, &[]).await?;
    same("the lost answer had", player.lose(9).await?.events(), [2])?;
    same(
        "then comes",
        player.fetch(9, &[]).await?.attempts(),
        [(2, 1)],
    )
}

async fn computed(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1, 2, 3]).await?;
    let highest = player.fetch(2, &[]).await?.seq(2)?;
    let wrong = Player {
        cursor: Some(highest),
        ..player
    };
    same(
        "it gets",
        wrong.lose(9).await?.attempts(),
        [(1, 1), (2, 1), (3, 1)],
    )
}

async fn always_zero(lab: Lab) -> Checked {
    let player = lab.with_events(&[1, 2]).await?;
    for _ in 0..2 {
        same(
            "it gets",
            player.lose(9).await?.attempts(),
            [(1, 1), (2, 1)],
        )?;
    }
    Ok(())
}

async fn same_run(lab: Lab) -> Checked {
    let mut player = lab.with_events(&[1]).await?;
    player.fetch(9, &[]).await?;
    let mut again = player.restarted("run-1");
    same(
        "after the restart it gets",
        again.fetch(9, &[]).await?.attempts(),
        [(1, 1)],
    )
}

async fn no_run(lab: Lab) -> Checked {
    let named = lab.with_events(&[1, 2]).await?;
    let plain = Player {
        run: None,
        cursor: None,
        ..named
    };
    same("first it gets", plain.lose(1).await?.attempts(), [(1, 1)])?;
    same("then it gets", plain.lose(1).await?.attempts(), [(1, 2)])
}

async fn no_run_echoes(lab: Lab) -> Checked {
    let named = lab.with_events(&[1, 2]).await?;
    let mut plain = Player { run: None, ..named };
    same(
        "first it gets",
        plain.fetch(1, &[]).await?.attempts(),
        [(1, 1)],
    )?;
    same(
        "then it gets",
        plain.fetch(1, &[]).await?.attempts(),
        [(2, 1)],
    )
}
