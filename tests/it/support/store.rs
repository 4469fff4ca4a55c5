//! What is in the store, seen from outside while the gateway runs.

use rusqlite::{Connection, OpenFlags, Params, Row};

use the_loop_gateway::domain::Clock;

use super::TestGateway;
use super::gateway::wait_until;

impl TestGateway {
    /// The rows of a query.
    #[track_caller]
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Vec<T> {
        let connection = self.look();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map(params, read).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    /// One number.
    #[track_caller]
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.rows(sql, [], |row| row.get(0))[0]
    }

    /// The texts of one column.
    #[track_caller]
    pub(crate) fn texts(&self, sql: &str) -> Vec<String> {
        self.rows(sql, [], |row| row.get(0))
    }

    /// Stored events.
    #[track_caller]
    pub(crate) fn stored(&self) -> i64 {
        self.number("SELECT count(*) FROM events")
    }

    /// Waits until a fetch of an instance is held: its lease is longer than what it asked for.
    #[track_caller]
    pub(crate) fn wait_for_held_poll(&self, instance: &str) {
        let sql = "SELECT count(*) FROM instances
                   WHERE name = ?1 AND lease_until_ms > ?2 + lease_ms";
        wait_until("a poll to be held", || {
            let now = self.clock.now().0;
            self.rows(sql, (instance, now), |row| row.get::<_, i64>(0)) == [1]
        });
    }

    #[expect(clippy::disallowed_methods, reason = "the test looks from outside")]
    fn look(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = &self.config().store_path;
        Connection::open_with_flags(path, flags).unwrap()
    }
}
