//! Consumers behind a proxy that cuts what is idle: held polls end long before they would.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::gateway::{Gateway, free_port};
use crate::mail::Mail;
use crate::program::Home;
use crate::world::World;
use crate::{now_ms, number_of, pass, wait_for};

/// haproxy, on a port of its own.
struct Proxy {
    child: Child,
    port: u16,
}

/// How it cuts.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// It answers 504 in the gateway's place.
    Answer,
    /// It closes the connection.
    Connection,
}

impl Proxy {
    fn start(home: &Home, to: u16, cut: Cut) -> Option<Self> {
        let Some(program) = haproxy() else {
            eprintln!("SKIPPED: no haproxy; Debian's package is haproxy");
            return None;
        };
        let port = free_port();
        let mode = match cut {
            Cut::Answer => "http",
            Cut::Connection => "tcp",
        };
        let config = home.write(
            "haproxy.cfg",
            &format!(
                "global\n  maxconn 200\n\
                 defaults\n  mode {mode}\n  timeout connect 2s\n  timeout client 1s\n  \
                 timeout server 1s\n\
                 listen gateway\n  bind 127.0.0.1:{port}\n  server one 127.0.0.1:{to}\n"
            ),
        );
        let child = Command::new(program)
            .args(["-db", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the proxy", 30, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(Self { child, port })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn haproxy() -> Option<PathBuf> {
    ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path: &PathBuf| Path::is_file(path))
}

/// Sends events at all distances from a cut; each must come, once, in order and soon.
fn consume_behind(cut: Cut, events: u64) {
    let gateway = Gateway::new(Home::new(), World::limits());
    gateway.start();
    let Some(proxy) = Proxy::start(&gateway.home, gateway.port, cut) else {
        return;
    };
    let consumer = gateway.consume(proxy.port, "peer");
    wait_for("the claim", 30, || {
        gateway.number("SELECT count(*) FROM claims") == 1
    });
    let mut slowest = 0;
    for mark in 1..=events {
        // From 0 to more than the second after which an idle connection is cut.
        pass((mark * 137) % 1_300);
        let began = now_ms();
        let reply = Mail::about(mark, 1).request(gateway.port).send();
        assert_eq!(reply.status, 202);
        let line = consumer.line_with("mark-");
        slowest = slowest.max(now_ms() - began);
        let line: Value = serde_json::from_str(&line).unwrap();
        let text = line.to_string();
        assert!(text.contains(&format!("mark-{mark} ")), "{mark}: {text}");
    }
    let settled =
        format!("SELECT count(*) FROM deliveries WHERE outcome = 'delivered' AND seq <= {events}");
    wait_for("the outcomes", 30, || {
        u64::try_from(gateway.number(&settled)).unwrap() == events
    });
    consumer.terminate();
    let blamed = "SELECT count(*) FROM deliveries WHERE strikes > 0 OR attempt > 1";
    assert_eq!(gateway.number(blamed), 0);
    gateway.end();
    gateway.assert_sound();
    eprintln!("{cut:?}: {events} events, the slowest took {slowest} ms");
    assert!(slowest < 20_000, "an event took {slowest} ms");
}

#[test]
fn behind_a_proxy_that_answers_for_the_gateway_everything_comes_once_and_in_order() {
    consume_behind(Cut::Answer, 12);
}

#[test]
fn behind_a_proxy_that_cuts_connections_everything_comes_once_and_in_order() {
    consume_behind(Cut::Connection, 12);
}

#[test]
#[ignore = "the long form; TORTURE_PROXIED says how many events"]
fn behind_proxies_that_cut_all_day_everything_comes_once_and_in_order() {
    let events = number_of("TORTURE_PROXIED", 500);
    consume_behind(Cut::Answer, events);
    consume_behind(Cut::Connection, events);
}
