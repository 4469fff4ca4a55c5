//! The built program in a home of its own: nothing of the machine's environment reaches it.

#![allow(dead_code, reason = "two programs of tests use it, each its part")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Far longer than anything here takes; a test that reaches it has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// A home directory that is the working directory too.
pub(crate) struct Home(TempDir);

/// How a command ended, and what it wrote.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command that goes on; killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A home on a file system of the test's choice.
    pub(crate) fn below(directory: &Path) -> Self {
        Self(tempfile::tempdir_in(directory).unwrap())
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    pub(crate) fn write(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_the-loop-gateway"));
        command.args(arguments);
        self.settle(&mut command);
        command
    }

    fn settle(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", self.0.path())
            .env("TMPDIR", self.0.path())
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// Starts a command that is expected to go on.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Self::started(self.command(arguments))
    }

    /// As [`Home::start`], with variables in its environment.
    pub(crate) fn start_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Running {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        Self::started(command)
    }

    /// As [`Home::start`], for a command whose standard error takes nothing, as on a full disk.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_unheard(&self, arguments: &[&str]) -> Running {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "exec \"$0\" \"$@\" 2>/dev/full"])
            .arg(env!("CARGO_BIN_EXE_the-loop-gateway"))
            .args(arguments);
        self.settle(&mut shell);
        Self::started(shell)
    }

    /// As [`Home::start`], for a command that a file over its limit must not end: it gets an
    /// error from the write instead.
    pub(crate) fn start_deaf_to_file_size(&self, arguments: &[&str]) -> Running {
        let program = self.command(arguments);
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
            .arg(program.get_program())
            .args(program.get_args());
        self.settle(&mut shell);
        Self::started(shell)
    }

    fn started(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let out = lines_of(child.stdout.take().unwrap());
        let err = lines_of(child.stderr.take().unwrap());
        Running { child, out, err }
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }
}

impl Running {
    /// The number of the process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output that holds a text.
    pub(crate) fn line_with(&self, text: &str) -> String {
        loop {
            match self.out.recv_timeout(DEADLINE) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(_) => {
                    let err: Vec<String> = self.err.try_iter().collect();
                    panic!("no line with {text:?}; standard error: {err:#?}");
                }
            }
        }
    }

    /// Whether standard error holds a text by now; what is read is not read again.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.err.try_iter().any(|line| line.contains(text))
    }

    /// The lines of standard output that have come since they were last asked for.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.out.try_iter().collect()
    }

    /// Sends SIGKILL, without waiting.
    pub(crate) fn signal_kill(&self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
    }

    /// Sends a signal, without waiting.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(self) -> Ended {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Waits for the end; both pipes close when the process is gone.
    pub(crate) fn end(mut self) -> Ended {
        let (out, err) = (rest_of(&self.out), rest_of(&self.err));
        let status: ExitStatus = self.child.wait().unwrap();
        Ended {
            code: status.code(),
            out,
            err,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error here means that it has ended, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// All lines until the pipe closes.
fn rest_of(lines: &Receiver<String>) -> String {
    let mut rest = String::new();
    loop {
        match lines.recv_timeout(DEADLINE) {
            Ok(line) => rest = rest + &line + "\n",
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return rest,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it does not end: {rest}"),
        }
    }
}

/// Takes a file away from everybody else.
pub(crate) fn only_for_its_owner(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The mode of a file.
pub(crate) fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
