//! Telling a supervisor how the gateway is: the protocol of systemd's `sd_notify`.
//!
//! One datagram of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names; without it nothing
//! is said. Nobody waits for the supervisor: a datagram that it does not take is lost.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::{Observe, Store};
use crate::config::{EnvName, Environment};

/// The supervisor, if one listens.
#[derive(Debug, Clone, Default)]
pub struct Notify {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// The supervisor that the environment names.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let value = |name: &str| {
            let secret = environment.secret(&EnvName::parse(name).ok()?);
            secret.expose().map(str::to_owned)
        };
        let Some(name) = value("NOTIFY_SOCKET") else {
            return Self::default();
        };
        let socket = match connect(&name) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "the supervisor that NOTIFY_SOCKET names is not reached");
                return Self::default();
            }
        };
        // The period may be meant for another process of the same service.
        let is_for_us = value("WATCHDOG_PID").is_none_or(|pid| {
            let own = std::process::id();
            pid.parse() == Ok(own)
        });
        let period = value("WATCHDOG_USEC").filter(|_| is_for_us);
        let period = period.and_then(|micros| micros.parse().ok());
        Self {
            socket: Some(Arc::new(socket)),
            watchdog: period
                .filter(|micros| *micros > 0)
                .map(Duration::from_micros),
        }
    }

    /// True when somebody is told.
    #[must_use]
    pub const fn is_heard(&self) -> bool {
        self.socket.is_some()
    }

    /// It accepts requests.
    pub(super) fn ready(&self, status: &str) {
        let pid = std::process::id();
        self.send(&format!("READY=1\nMAINPID={pid}\nSTATUS={status}"));
    }

    /// It is about to end, in order.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=draining");
    }

    /// Says that the gateway lives, as long as the store's thread answers: twice as often as the
    /// supervisor wants to hear it. Returns at once when it does not want to.
    pub(super) async fn keep_alive(self, store: Store) {
        let Some(period) = self.watchdog else {
            return;
        };
        let mut due = tokio::time::interval(period.checked_div(2).unwrap_or(period));
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            // Not being able to write is no reason to be started again, but being stuck is.
            match tokio::time::timeout(period, store.send(Observe)).await {
                Ok(Ok(_)) => self.send("WATCHDOG=1"),
                Ok(Err(_)) => return,
                Err(_) => tracing::error!("the store's thread does not answer"),
            }
        }
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(text.as_bytes())
        {
            tracing::debug!(%error, "the supervisor does not hear");
        }
    }
}

fn connect(name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match name.strip_prefix('@') {
        Some(name) => connect_abstract(&socket, name)?,
        None => socket.connect(name)?,
    }
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn connect_abstract(socket: &UnixDatagram, name: &str) -> io::Result<()> {
    use std::os::linux::net::SocketAddrExt;

    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    socket.connect_addr(&address)
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract(_: &UnixDatagram, _: &str) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(supervisor: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = supervisor.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_supervisor_hears_that_it_is_ready_and_that_it_stops() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let supervisor = UnixDatagram::bind(&path).unwrap();
        let name = path.display().to_string();
        let notify = Notify::of(&Environment::given([("NOTIFY_SOCKET", name.as_str())]));
        notify.ready("listening on 127.0.0.1:8790");
        let pid = std::process::id();
        assert_eq!(
            heard(&supervisor),
            format!("READY=1\nMAINPID={pid}\nSTATUS=listening on 127.0.0.1:8790")
        );
        notify.stopping();
        assert!(heard(&supervisor).starts_with("STOPPING=1\n"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_with_an_at_sign_is_an_abstract_one() {
        use std::os::linux::net::SocketAddrExt;

        let name = format!("gateway-notify-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let supervisor = UnixDatagram::bind_addr(&address).unwrap();
        let name = format!("@{name}");
        let notify = Notify::of(&Environment::given([("NOTIFY_SOCKET", name.as_str())]));
        notify.stopping();
        assert!(heard(&supervisor).starts_with("STOPPING=1"));
    }

    #[test]
    fn without_a_supervisor_nothing_is_said_and_a_period_for_another_process_is_none() {
        let silent = Notify::of(&Environment::given([("WATCHDOG_USEC", "1000")]));
        assert!(!silent.is_heard());
        silent.stopping();
        let gone = Notify::of(&Environment::given([("NOTIFY_SOCKET", "/nowhere/at/all")]));
        assert!(!gone.is_heard());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let _supervisor = UnixDatagram::bind(&path).unwrap();
        let name = path.display().to_string();
        let own = std::process::id().to_string();
        for (pid, period) in [(own.as_str(), Some(Duration::from_secs(2))), ("1", None)] {
            let notify = Notify::of(&Environment::given([
                ("NOTIFY_SOCKET", name.as_str()),
                ("WATCHDOG_USEC", "2000000"),
                ("WATCHDOG_PID", pid),
            ]));
            assert_eq!(notify.watchdog, period, "{pid}");
        }
    }
}
