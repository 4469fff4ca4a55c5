use std::sync::Arc;

use super::*;
use crate::domain::Clock;
use crate::store::{Settings, Writer, open_writer};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        NOW
    }

    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn instant(&self) -> std::time::Instant {
        std::time::Instant::now()
    }
}

fn ago(seconds: i64) -> i64 {
    NOW.plus(seconds.saturating_mul(-1_000)).0
}

struct Store {
    writer: Writer,
    _dir: tempfile::TempDir,
}

impl Store {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let connection = open_writer(&dir.path().join("gateway.db")).unwrap();
        let writer = Writer::new(connection, Settings::default(), Arc::new(Stopped));
        Self { writer, _dir: dir }
    }

    fn make<W: Write>(&mut self, write: W) -> W::Reply {
        self.writer.commit_one(write).0.unwrap()
    }

    fn bind(&self, key: &str, seconds_ago: i64) {
        let at = ago(seconds_ago);
        let sql = "INSERT INTO bindings VALUES ('slack', ?1, 'x', 'x', 'x', 1, ?2, ?2)";
        let connection = self.writer.connection();
        connection.execute(sql, params![key, at]).unwrap();
    }

    fn publish(&self, channel: &str, seconds_ago: i64) {
        let at = ago(seconds_ago);
        let sql = "INSERT INTO rooms VALUES (?1, 'x', 1, ?2, ?2)";
        let connection = self.writer.connection();
        connection.execute(sql, params![channel, at]).unwrap();
    }

    fn active(&mut self, channel: &str, thread_ts: Option<&str>) {
        let conversations = [conversation(channel, thread_ts)].into();
        self.make(NoteSlackActivity { conversations });
    }

    fn read_up_to(&mut self, channel: &str, thread_ts: Option<&str>, ts: &str) {
        self.make(NoteSlackMark {
            conversation: conversation(channel, thread_ts),
            last_ts: ts.to_owned(),
        });
    }

    /// `channel[/thread] > after`, `!` where it is the first reading.
    fn readings(&mut self, declared: &[&str]) -> Vec<String> {
        let declared_rooms = declared.iter().map(|room| (*room).to_owned()).collect();
        let readings = self.make(ListSlackReadings { declared_rooms });
        let shown = readings.into_iter().map(|reading| {
            let thread = reading.conversation.thread_ts;
            let thread = thread.map(|ts| format!("/{ts}")).unwrap_or_default();
            let first = if reading.is_first { "!" } else { "" };
            let channel = reading.conversation.channel;
            format!("{channel}{thread} > {}{first}", reading.after)
        });
        shown.collect()
    }
}

fn conversation(channel: &str, thread_ts: Option<&str>) -> SlackConversation {
    SlackConversation {
        channel: channel.to_owned(),
        thread_ts: thread_ts.map(str::to_owned),
    }
}

#[test]
fn a_thread_is_first_read_from_shortly_before_it_was_bound_and_then_from_its_mark() {
    let mut store = Store::new();
    store.bind("T1/C1/1699990000.000100", 600);
    let first = "C1/1699990000.000100 > 1699999280.000000!";
    assert_eq!(store.readings(&[]), [first]);
    store.read_up_to("C1", Some("1699990000.000100"), "1699999300.000200");
    let second = "C1/1699990000.000100 > 1699999300.000200";
    assert_eq!(store.readings(&[]), [second]);
}

#[test]
fn the_first_message_of_a_thread_is_not_read_as_a_reply() {
    let mut store = Store::new();
    store.bind("C1/1699999999.000100", 1);
    assert_eq!(
        store.readings(&[]),
        ["C1/1699999999.000100 > 1699999999.000100!"]
    );
}

#[test]
fn a_mark_never_goes_back_and_live_messages_do_not_move_it() {
    let mut store = Store::new();
    store.bind("C1/1699990000.000100", 600);
    store.read_up_to("C1", Some("1699990000.000100"), "1699999300.000200");
    store.read_up_to("C1", Some("1699990000.000100"), "1699999200.000000");
    store.active("C1", Some("1699990000.000100"));
    let expected = "C1/1699990000.000100 > 1699999300.000200";
    assert_eq!(store.readings(&[]), [expected]);
}

#[test]
fn a_thread_bound_by_its_time_stamp_alone_is_read_once_a_message_told_its_channel() {
    let mut store = Store::new();
    store.bind("1699990000.000100", 600);
    assert!(store.readings(&[]).is_empty());
    store.active("C7", Some("1699990000.000100"));
    let expected = "C7/1699990000.000100 > 1699999280.000000!";
    assert_eq!(store.readings(&[]), [expected]);
}

#[test]
fn a_declared_room_is_read_from_now_on_and_a_published_one_since_it_was_published() {
    let mut store = Store::new();
    store.publish("C2", 600);
    assert_eq!(
        store.readings(&["C1"]),
        ["C2 > 1699999280.000000!", "C1 > 1700000000.000000!"]
    );
}

#[test]
fn threads_that_are_active_in_a_room_are_read_and_those_elsewhere_are_not() {
    let mut store = Store::new();
    store.publish("C2", 600);
    store.active("C2", Some("1699000000.000100"));
    store.active("C3", Some("1699000000.000100"));
    assert_eq!(
        store.readings(&[]),
        [
            "C2/1699000000.000100 > 1699996400.000000!",
            "C2 > 1699999280.000000!",
        ]
    );
}

#[test]
fn nothing_is_read_from_before_the_retention() {
    let mut store = Store::new();
    store.bind("C1/1690000000.000100", 30 * 24 * 3_600);
    assert_eq!(
        store.readings(&[]),
        ["C1/1690000000.000100 > 1699395200.000000!"]
    );
}

#[test]
fn the_most_active_conversations_come_first_and_their_number_is_bounded() {
    let mut store = Store::new();
    for number in 0..300 {
        store.bind(&format!("C1/1699990000.{number:06}"), 1_000 + number);
    }
    store.active("C1", Some("1699990000.000299"));
    let readings = store.readings(&[]);
    assert_eq!(readings.len(), SLACK_READINGS_MAX);
    assert!(readings[0].starts_with("C1/1699990000.000299"));
    assert!(readings[1].starts_with("C1/1699990000.000000"));
    assert!(readings[199].starts_with("C1/1699990000.000198"));
}

#[test]
fn marks_that_were_long_unused_are_forgotten() {
    let mut store = Store::new();
    store.read_up_to("C1", None, "1600000000.000100");
    store.active("C2", None);
    let count = "SELECT count(*) FROM slack_marks";
    let connection = store.writer.connection();
    let rows: i64 = connection.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn an_event_is_unseen_when_none_of_its_keys_is_seen() {
    let mut store = Store::new();
    let sql = "INSERT INTO seen_keys (key, event_id, seen_at_ms) VALUES ('a', 1, 1)";
    store.writer.connection().execute(sql, []).unwrap();
    let events = [vec!["a"], vec!["b", "a"], vec!["b"], vec![]];
    let events = events.map(|keys| keys.into_iter().map(str::to_owned).collect());
    let unseen = store.make(FindUnseen {
        events: events.into(),
    });
    assert_eq!(unseen, [false, false, true, true]);
}
