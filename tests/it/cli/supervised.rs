//! The program under a supervisor that listens as systemd does.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::CONFIG;
use super::program::{Home, Running};

const DEADLINE: Duration = Duration::from_secs(60);
/// A fifth of a second, in microseconds.
const PERIOD: &str = "200000";

struct Supervisor {
    home: Home,
    socket: UnixDatagram,
    name: String,
}

impl Supervisor {
    fn new() -> Self {
        let home = Home::new();
        home.write(CONFIG, "version: '1'\nlisten: {port: 0}\n");
        let path = home.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self {
            home,
            socket,
            name: path.display().to_string(),
        }
    }

    fn start(&self, variables: &[(&str, &str)]) -> Running {
        let mut variables = variables.to_vec();
        variables.push(("NOTIFY_SOCKET", &self.name));
        self.home.start_with(&["run"], &variables)
    }

    fn heard(&self) -> String {
        let mut buffer = [0; 512];
        let length = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// The next thing that is told besides signs of life.
    fn news(&self) -> String {
        loop {
            let heard = self.heard();
            if heard != "WATCHDOG=1" {
                return heard;
            }
        }
    }
}

#[test]
fn a_supervisor_hears_when_it_is_ready_that_it_lives_and_that_it_stops() {
    let supervisor = Supervisor::new();
    let running = supervisor.start(&[("WATCHDOG_USEC", PERIOD)]);
    let ready = supervisor.news();
    let main = format!(
        "READY=1\nMAINPID={}\nSTATUS=listening on port ",
        running.process()
    );
    assert!(ready.starts_with(&main), "{ready}");
    for _ in 0..3 {
        assert_eq!(supervisor.heard(), "WATCHDOG=1");
    }
    // Nobody but the supervisor starts it again.
    let refused = supervisor.home.run(&["restart"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("kept by a supervisor"),
        "{}",
        refused.err
    );
    let status = supervisor.home.run(&["status"]);
    assert_eq!(status.code, Some(0), "{}", status.err);
    assert!(
        status.out.contains("kept by a supervisor"),
        "{}",
        status.out
    );
    let ended = running.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(supervisor.news(), "STOPPING=1\nSTATUS=draining");
}

#[test]
fn without_a_period_no_sign_of_life_is_given_and_a_failed_start_is_not_ready() {
    let supervisor = Supervisor::new();
    let running = supervisor.start(&[]);
    assert!(supervisor.heard().starts_with("READY=1\n"));
    let second = supervisor.start(&[]).end();
    assert_eq!(second.code, Some(1), "{}", second.err);
    assert_eq!(running.terminate().code, Some(0));
    assert!(supervisor.heard().starts_with("STOPPING=1\n"));
    supervisor.socket.set_nonblocking(true).unwrap();
    assert!(supervisor.socket.recv(&mut [0; 512]).is_err());
}

#[test]
fn one_that_is_started_in_the_background_tells_the_callers_supervisor_nothing() {
    let supervisor = Supervisor::new();
    let name = supervisor.name.as_str();
    let started = supervisor
        .home
        .start_with(&["start"], &[("NOTIFY_SOCKET", name)])
        .end();
    let stopped = supervisor.home.run(&["stop"]);
    assert_eq!(started.code, Some(0), "{}", started.err);
    assert_eq!(stopped.code, Some(0), "{}", stopped.err);
    supervisor.socket.set_nonblocking(true).unwrap();
    assert!(supervisor.socket.recv(&mut [0; 512]).is_err());
}
