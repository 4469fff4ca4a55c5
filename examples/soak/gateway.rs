//! The gateway as a process of its own, and how large it and its files are.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::payloads::SECRET;
use crate::support::resident_mb;

/// So little that retention has something to do all the time; more than the write-ahead log, which
/// counts, and what comes between two sweeps.
const STORE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What is there at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// When, from the first one.
    pub(crate) at: Duration,
    pub(crate) rss_mb: f64,
    pub(crate) file_mb: f64,
    pub(crate) wal_mb: f64,
}

/// A running gateway; killed when it is dropped.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    child: Child,
    folder: tempfile::TempDir,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let config = folder.path().join("gateway-config.yaml");
        let text = format!(
            "version: '1'\nenv: {{file: the-loop.env}}\nstate: {{root: state}}\n\
             listen: {{port: {}}}\nrepositories: [octo/repo]\n\
             github: {{webhook: {{enabled: true}}}}\nstore: {{maxBytes: {STORE_BYTES_MAX}}}\n\
             observability: {{eventLog: {{maxBytes: 16777216, keep: 1}}}}\n",
            address.port()
        );
        std::fs::write(&config, text).expect("a config");
        let variable = format!("THE_LOOP_GH_WEBHOOK_SECRET={SECRET}\n");
        std::fs::write(folder.path().join("the-loop.env"), variable).expect("an env file");
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .arg("--config")
            .arg(&config)
            .arg("run")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the gateway");
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "it does not start"
            );
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Self {
            address,
            child,
            folder,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("state").join(name)
    }

    /// Its sizes, once a second for so long.
    pub(crate) fn sample(&self, span: Duration) -> Vec<Sizes> {
        let began = Instant::now();
        let mb = |name: &str| {
            let length = std::fs::metadata(self.file(name)).map_or(0, |file| file.len());
            length as f64 / 1_048_576.0
        };
        let mut sizes = Vec::new();
        while began.elapsed() < span {
            sizes.push(Sizes {
                at: began.elapsed(),
                rss_mb: resident_mb(self.child.id()),
                file_mb: mb("gateway.db"),
                wal_mb: mb("gateway.db-wal"),
            });
            let next = Duration::from_secs(sizes.len() as u64);
            while let Some(left) = next
                .checked_sub(began.elapsed())
                .filter(|left| !left.is_zero())
            {
                std::thread::park_timeout(left);
            }
        }
        sizes
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.child.kill().expect("to stop it");
        self.child.wait().expect("its end");
    }
}
