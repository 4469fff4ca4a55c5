//! Who may ask.

use std::time::Duration;

use awc::http::Method;
use serde_json::{Value, json};

use super::lab::{Checked, Lab, beside, require, same};
use super::player::{Fetched, Player};
use super::{Chapter, check};

pub(super) const CHAPTER: Chapter = Chapter {
    name: "leases",
    checks: &[
        check!(
            "Another peer is refused while the holder's lease lives, and told the holder, since when, and when to come back.",
            another_peer
        ),
        check!("The holder's peer id is never shown.", no_peer_id),
        check!(
            "While a lease lives, a request without a peer is refused.",
            without_peer
        ),
        check!(
            "Commits and registrations under a name that another peer holds are refused alike.",
            refused_alike
        ),
        check!(
            "After the lease has lapsed another peer takes over.",
            lapsed
        ),
        check!(
            "A lapsed lease alone changes nothing for the same run.",
            slept
        ),
        check!("While a poll is held the name stays its caller's.", held),
        check!("A new run of the same peer takes over at once.", new_run),
        check!(
            "The run that was taken over from is refused as superseded.",
            superseded
        ),
        check!(
            "What a superseded run still commits counts.",
            superseded_commit
        ),
        check!(
            "Registering actors with a new run takes over too.",
            actors_take_over
        ),
        check!("A commit renews the lease.", commit_renews),
    ],
};

async fn another_peer(lab: Lab) -> Checked {
    let mut holder = Player::new(&lab, "");
    holder.fetch(9, &[]).await?;
    let answer = holder.rival().ask(&json!({})).await?;
    let header = answer.retry_after;
    let refusal = answer.refusal("another peer", 409, "duplicate-instance")?;
    let text = |name: &str| {
        refusal
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    same("the holder is", text("holder"), holder.instance.as_str())?;
    require(
        text("since").parse::<jiff::Timestamp>().is_ok(),
        "`since` is no time",
    )?;
    require(!text("fingerprint").is_empty(), "there is no fingerprint")?;
    require(
        refusal.get("reason").is_none(),
        "another peer is told that it is superseded",
    )?;
    require(
        header.is_some_and(|seconds| seconds >= 1),
        "there is no Retry-After",
    )
}

async fn no_peer_id(lab: Lab) -> Checked {
    let mut holder = Player::new(&lab, "");
    holder.fetch(9, &[]).await?;
    let refused = holder.rival().ask(&json!({})).await?;
    let shown = format!(
        "{}{}",
        refused.json,
        lab.view("instances?limit=1000").await?
    );
    let peer = holder.peer.unwrap_or_default();
    require(
        !shown.contains(&peer),
        "the id of the holder's peer is shown",
    )
}

async fn without_peer(lab: Lab) -> Checked {
    let mut holder = Player::new(&lab, "");
    holder.fetch(9, &[]).await?;
    let nobody = Player {
        peer: None,
        ..holder
    };
    let answer = nobody.try_commit(&[]).await?;
    answer
        .refusal("a commit without a peer", 409, "duplicate-instance")
        .map(drop)
}

async fn refused_alike(lab: Lab) -> Checked {
    let mut holder = Player::new(&lab, "");
    holder.fetch(9, &[]).await?;
    let rival = holder.rival();
    let subject = lab.subject(1);
    for (method, route, fields) in [
        (Method::POST, "commit", json!({"commit": []})),
        (
            Method::PUT,
            "claims",
            json!({"subject": subject, "role": "driver"}),
        ),
        (Method::PUT, "actors", json!({"actors": {}})),
        (
            Method::POST,
            "bindings",
            json!({"ref": "standing:conformance", "provider": "slack", "key": "0.0"}),
        ),
        (Method::PUT, "rooms", json!({"rooms": []})),
    ] {
        let answer = lab
            .call(method, route, &rival.body(&fields), Duration::ZERO)
            .await?;
        answer.refusal(route, 409, "duplicate-instance")?;
    }
    Ok(())
}

/// Takes the shortest lease that is granted and lets it lapse.
async fn let_lapse(lab: &Lab, player: &mut Player) -> Checked<Fetched> {
    let fetched = player.fetch_with(&json!({"lease": 0})).await?;
    let lease = Duration::try_from_secs_f64(fetched.expires_in.clamp(0.0, 1e6)).unwrap_or_default();
    lab.pass(lease.saturating_add(Duration::from_millis(500)))
        .await?;
    Ok(fetched)
}

async fn lapsed(lab: Lab) -> Checked {
    let mut holder = lab.with_events(&[1]).await?;
    let fetched = let_lapse(&lab, &mut holder).await?;
    same("the holder gets", fetched.events(), [1])?;
    let taken = holder.rival().fetch(9, &[]).await?;
    same("the newcomer gets", taken.attempts(), [(1, 2)])?;
    let back = holder.ask(&json!({})).await?;
    back.refusal("the peer of before", 409, "duplicate-instance")
        .map(drop)
}

async fn slept(lab: Lab) -> Checked {
    let mut sleeper = lab.with_events(&[1, 2]).await?;
    let first = sleeper.fetch_with(&json!({"max": 1, "lease": 0})).await?;
    let lease = Duration::try_from_secs_f64(first.expires_in.clamp(0.0, 1e6)).unwrap_or_default();
    lab.pass(lease.saturating_add(Duration::from_millis(500)))
        .await?;
    same("it gets", sleeper.fetch(9, &[]).await?.events(), [2])?;
    let committed = sleeper.commit(&[(first.seq(1)?, "delivered")]).await?;
    require(committed >= first.seq(1)?, "its outcome does not count")
}

async fn held(lab: Lab) -> Checked {
    let mut holder = Player::new(&lab, "");
    let lease = holder.fetch_with(&json!({"lease": 0})).await?.expires_in;
    let wait = lease + 3.0;
    lab.may_wait(Duration::try_from_secs_f64(wait.clamp(0.0, 1e6)).unwrap_or_default())?;
    let rival = holder.rival();
    let more = json!({"lease": 0, "wait": wait});
    let meanwhile = async {
        lab.pass(Duration::try_from_secs_f64(lease + 1.0).unwrap_or_default())
            .await?;
        rival.ask(&json!({})).await
    };
    let began = tokio::time::Instant::now();
    let hold = async { holder.fetch_with(&more).await.map(|_| began.elapsed()) };
    let (held, answer) = beside(hold, meanwhile).await?;
    if held.as_secs_f64() < lease + 1.0 {
        return Err(super::Stop::Skipped(
            "the server holds a poll no longer than a lease".to_owned(),
        ));
    }
    answer
        .refusal("another peer", 409, "duplicate-instance")
        .map(drop)
}

async fn new_run(lab: Lab) -> Checked {
    let mut old = lab.with_events(&[1]).await?;
    old.fetch(0, &[]).await?;
    let new = old.restarted("run-2").fetch(9, &[]).await?;
    same("the new run gets", new.events(), [1])
}

async fn superseded(lab: Lab) -> Checked {
    let mut old = Player::new(&lab, "");
    old.fetch(9, &[]).await?;
    old.restarted("run-2").fetch(9, &[]).await?;
    let answer = old.ask(&json!({})).await?;
    let refusal = answer.refusal("the old run", 409, "duplicate-instance")?;
    same(
        "the reason is",
        refusal.get("reason"),
        Some(&json!("superseded")),
    )
}

async fn superseded_commit(lab: Lab) -> Checked {
    let mut old = lab.with_events(&[1]).await?;
    let seq = old.fetch(9, &[]).await?.seq(1)?;
    old.restarted("run-2").fetch(0, &[]).await?;
    let committed = old.commit(&[(seq, "delivered")]).await?;
    require(committed >= seq, "the outcome does not count")
}

async fn actors_take_over(lab: Lab) -> Checked {
    let mut old = Player::new(&lab, "");
    old.fetch(9, &[]).await?;
    let new = old.restarted("run-2");
    let body = new.body(&json!({"actors": {}}));
    let registered = lab
        .call(Method::PUT, "actors", &body, Duration::ZERO)
        .await?;
    registered.success("actors of a new run")?;
    let refusal = old
        .ask(&json!({}))
        .await?
        .refusal("the old run", 409, "duplicate-instance")?;
    same(
        "the reason is",
        refusal.get("reason"),
        Some(&json!("superseded")),
    )
}

async fn commit_renews(lab: Lab) -> Checked {
    let mut holder = Player::new(&lab, "");
    let lease = holder.fetch_with(&json!({"lease": 0})).await?.expires_in;
    let most = Duration::try_from_secs_f64((lease * 1.4).clamp(0.0, 1e6)).unwrap_or_default();
    lab.may_wait(most)?;
    let part = Duration::try_from_secs_f64((lease * 0.7).clamp(0.0, 1e6)).unwrap_or_default();
    lab.pass(part).await?;
    holder.commit(&[]).await?;
    lab.pass(part).await?;
    let answer = holder.rival().ask(&json!({})).await?;
    answer
        .refusal("another peer", 409, "duplicate-instance")
        .map(drop)
}
