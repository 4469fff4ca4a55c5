//! What is in hand, one sentence a test.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

fn desk() -> Desk {
    Desk::new(Bounds {
        concurrency: 3,
        batch: 8,
        in_hand: 16,
        back_off: BackOff::default(),
    })
}

/// A delivery about issue `number`; 0 is about none.
fn delivery(seq: i64, number: u32) -> Delivery {
    let subject = match number {
        0 => "unassigned".to_owned(),
        number => format!("loop-github-o-r-{number}"),
    };
    let text = format!(
        r#"{{"seq":{seq},"attempt":1,"event":{{"id":{seq},"subject":"{subject}","provider":"github",
        "source":"webhook","deliveryId":"d","receivedAt":"2026-10-18T14:02:11.120Z",
        "workItem":null,"kind":"k","headers":{{}},"payload":{{}},"attempt":1}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn deliveries(items: &[(i64, u32)]) -> Vec<Delivery> {
    items
        .iter()
        .map(|(seq, number)| delivery(*seq, *number))
        .collect()
}

fn start_all(desk: &mut Desk, now: Instant) -> Vec<i64> {
    std::iter::from_fn(|| desk.start(now).map(|delivery| delivery.seq.0)).collect()
}

fn finish(desk: &mut Desk, seq: i64, handled: Handled) -> Option<TargetChange> {
    desk.finish(Seq(seq), handled, Instant::now())
}

fn down(target: &str) -> Handled {
    Handled::TargetDown {
        target: target.to_owned(),
        advice: "start it".to_owned(),
    }
}

fn outcomes(desk: &mut Desk) -> Vec<String> {
    let shown = |item: &CommitItem| format!("{} {}", item.seq, item.outcome);
    desk.take_outcomes(99).iter().map(shown).collect()
}

const NONE: [i64; 0] = [];

#[tokio::test]
async fn one_delivery_of_a_subject_is_worked_on_at_a_time_and_subjects_side_by_side() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 1), (3, 2), (4, 3), (5, 4)]));
    assert_eq!(start_all(&mut desk, now), [1, 3, 4]);
    finish(&mut desk, 3, Handled::delivered());
    assert_eq!(start_all(&mut desk, now), [5]);
    finish(&mut desk, 1, Handled::delivered());
    assert_eq!(start_all(&mut desk, now), [2]);
}

#[tokio::test]
async fn deliveries_without_a_work_item_have_no_order_among_themselves() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 0), (2, 0)]));
    assert_eq!(start_all(&mut desk, now), [1, 2]);
}

#[tokio::test]
async fn the_case_of_letters_does_not_make_another_subject() {
    let (mut desk, now) = (desk(), Instant::now());
    let mut other = delivery(2, 1);
    other.event.subject = other.event.subject.to_uppercase();
    desk.accept(vec![delivery(1, 1), other]);
    assert_eq!(start_all(&mut desk, now), [1]);
}

#[tokio::test]
async fn after_a_failure_the_rest_of_the_subject_is_left_and_nothing_is_said_of_it() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]));
    start_all(&mut desk, now);
    finish(&mut desk, 1, Handled::failed("no"));
    assert_eq!(start_all(&mut desk, now), NONE);
    assert_eq!(outcomes(&mut desk), ["1 failed"]);
    assert_eq!(desk.in_hand(), 2);
    // They come again, behind the first.
    desk.accept(deliveries(&[(1, 1), (2, 1), (3, 1)]));
    assert_eq!(start_all(&mut desk, now), [1]);
}

#[tokio::test]
async fn what_was_said_of_an_earlier_hand_out_is_not_said_of_a_later_one() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 2)]));
    start_all(&mut desk, now);
    finish(&mut desk, 1, Handled::failed("no"));
    finish(&mut desk, 2, Handled::delivered());
    // Neither is confirmed, and both come again: the failure is void, the other is settled.
    let sent = desk.take_outcomes(99);
    desk.keep(&sent);
    desk.accept(deliveries(&[(1, 1), (2, 2)]));
    assert_eq!(start_all(&mut desk, now), [1]);
    assert_eq!(outcomes(&mut desk), ["2 delivered"]);
    // A late confirmation of the failure confirms nothing of the new hand-out.
    finish(&mut desk, 1, Handled::delivered());
    desk.confirm(&sent);
    assert_eq!(outcomes(&mut desk), ["1 delivered"]);
}

#[tokio::test]
async fn what_is_worked_on_is_not_begun_again_when_it_comes_again() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 1)]));
    assert_eq!(start_all(&mut desk, now), [1]);
    desk.accept(deliveries(&[(1, 1), (2, 1)]));
    assert_eq!(start_all(&mut desk, now), NONE);
    assert_eq!(desk.in_hand(), 2);
}

#[tokio::test]
async fn outcomes_are_kept_until_they_are_confirmed_and_not_sent_twice_meanwhile() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 2)]));
    start_all(&mut desk, now);
    finish(&mut desk, 1, Handled::delivered());
    let sent = desk.take_outcomes(99);
    finish(&mut desk, 2, Handled::spawned());
    assert_eq!(outcomes(&mut desk), ["2 spawned"]);
    desk.keep(&sent);
    assert_eq!(outcomes(&mut desk), ["1 delivered"]);
    desk.confirm(&sent);
    assert_eq!(desk.unconfirmed(), 1);
    assert_eq!(desk.forget(&[Seq(2), Seq(77)]), 1);
    assert_eq!(desk.unconfirmed(), 0);
}

#[tokio::test]
async fn more_is_asked_for_while_a_worker_is_free_or_half_a_batch_is_done() {
    let (mut desk, now) = (desk(), Instant::now());
    assert_eq!(desk.wanted(), Some(8));
    desk.accept(
        (1..=8)
            .map(|seq| delivery(seq, u32::try_from(seq).unwrap()))
            .collect(),
    );
    start_all(&mut desk, now);
    assert_eq!(desk.wanted(), None);
    for seq in 1..=4 {
        finish(&mut desk, seq, Handled::delivered());
        start_all(&mut desk, now);
    }
    assert_eq!(desk.wanted(), Some(8));
    // One slow subject keeps nobody from the others, up to the bound.
    desk.accept((20..=31).map(|seq| delivery(seq, 9)).collect());
    assert_eq!(desk.in_hand(), 16);
    assert_eq!(desk.wanted(), None);
}

#[tokio::test]
async fn while_a_target_is_down_nothing_is_asked_for_and_one_delivery_tries_it() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 2), (3, 3)]));
    start_all(&mut desk, now);
    assert!(matches!(
        finish(&mut desk, 1, down("a")),
        Some(TargetChange::Down { .. })
    ));
    assert_eq!(finish(&mut desk, 2, down("a")), None);
    // Another target is no matter.
    finish(&mut desk, 3, Handled::delivered());
    assert_eq!(outcomes(&mut desk), ["3 delivered"]);
    assert_eq!(desk.wanted(), None);
    assert_eq!(start_all(&mut desk, now), NONE);

    let again = desk.next_try().unwrap();
    assert_eq!(start_all(&mut desk, again), [1]);
    assert_eq!(desk.next_try(), None);
    assert_eq!(desk.finish(Seq(1), down("a"), again), None);
    let later = desk.next_try().unwrap();
    assert!(
        later - again >= Duration::from_millis(1_600),
        "it waits longer"
    );

    assert_eq!(start_all(&mut desk, later), [1]);
    let back = finish(&mut desk, 1, Handled::delivered());
    let target = "a".to_owned();
    assert_eq!(back, Some(TargetChange::Up { target }));
    assert_eq!(start_all(&mut desk, later), [2]);
    assert_eq!(desk.wanted(), Some(8));
}

#[tokio::test]
async fn two_targets_are_down_and_come_back_on_their_own() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 2)]));
    start_all(&mut desk, now);
    finish(&mut desk, 1, down("a"));
    finish(&mut desk, 2, down("b"));
    assert_eq!(desk.targets_down(), ["a", "b"]);
    let much_later = now + Duration::from_secs(60);
    assert_eq!(start_all(&mut desk, much_later), [1, 2]);
    finish(&mut desk, 2, Handled::delivered());
    assert_eq!(desk.targets_down(), ["a"]);
    assert_eq!(desk.wanted(), None);
}

#[tokio::test]
async fn a_target_that_answers_with_a_failure_is_back() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 1)]));
    start_all(&mut desk, now);
    finish(&mut desk, 1, down("a"));
    let again = desk.next_try().unwrap();
    start_all(&mut desk, again);
    let back = finish(&mut desk, 1, Handled::failed("HTTP 500"));
    assert!(matches!(back, Some(TargetChange::Up { .. })));
    assert_eq!((desk.in_hand(), desk.targets_down().len()), (0, 0));
}

#[tokio::test]
async fn at_the_end_everything_without_an_outcome_is_released() {
    let (mut desk, now) = (desk(), Instant::now());
    desk.accept(deliveries(&[(1, 1), (2, 1), (3, 2), (4, 3), (5, 4)]));
    start_all(&mut desk, now);
    finish(&mut desk, 3, Handled::delivered());
    finish(&mut desk, 4, down("a"));
    desk.release_waiting();
    desk.release_running();
    assert_eq!(
        outcomes(&mut desk),
        [
            "1 released",
            "2 released",
            "3 delivered",
            "4 released",
            "5 released"
        ]
    );
    assert_eq!(desk.in_hand(), 0);
}
