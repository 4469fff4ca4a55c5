//! The program itself, as a process of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::payloads::SECRET;
use super::support::resident_mb;

/// A running gateway; killed when it is dropped.
pub(crate) struct Program {
    pub(crate) address: SocketAddr,
    /// From the moment at which it was started until it said that it is ready.
    pub(crate) ready_after: Duration,
    config: PathBuf,
    child: Child,
}

impl Program {
    /// Starts it on a state root, which may hold a store, and waits until it is ready.
    pub(crate) fn start(root: &Path) -> Self {
        std::fs::create_dir_all(root).expect("a folder");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let config = root.with_extension("yaml");
        std::fs::write(&config, config_text(root, address, "octo/repo")).expect("a config");
        let variable = format!("THE_LOOP_GH_WEBHOOK_SECRET={SECRET}\n");
        std::fs::write(root.with_extension("env"), variable).expect("an env file");
        let began = Instant::now();
        let child = command()
            .arg("--config")
            .arg(&config)
            .arg("run")
            .spawn()
            .expect("the program");
        while !is_ready(address) {
            assert!(began.elapsed() < Duration::from_secs(60), "it is not ready");
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Self {
            address,
            ready_after: began.elapsed(),
            config,
            child,
        }
    }

    /// Resident memory.
    pub(crate) fn resident_mb(&self) -> f64 {
        resident_mb(self.child.id())
    }

    /// Changes its configuration and tells it to look.
    pub(crate) fn reload(&self, number: usize) {
        let root = self.config.with_extension("");
        let declared = format!("octo/repo, octo/other-{number}");
        let text = config_text(&root, self.address, &declared);
        std::fs::write(&self.config, text).expect("a config");
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("a signal");
    }
}

/// The program with nothing to say.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_the-loop-gateway"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn config_text(root: &Path, address: SocketAddr, repositories: &str) -> String {
    format!(
        "version: '1'\nenv: {{file: {}}}\nstate: {{root: {}}}\nlisten: {{port: {}}}\n\
         repositories: [{repositories}]\ngithub: {{webhook: {{enabled: true}}}}\n",
        root.with_extension("env").display(),
        root.display(),
        address.port()
    )
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        let path = "/api/v1/gateway/ready";
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().expect("to stop it");
        self.child.wait().expect("its end");
    }
}
