//! A real browser, driven over `WebDriver`, on a profile of its own.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

/// How long anything on the page may take: two of its rounds, and then some.
const PATIENCE: Duration = Duration::from_secs(30);
/// Who can drive a Chromium, by the names that distributions give it.
const DRIVERS: [&str; 2] = ["chromedriver", "chromium.chromedriver"];

/// What the browser is asked to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
}

impl Look {
    pub(crate) const WIDE: Self = Self {
        width: 1_280,
        height: 900,
        is_dark: false,
    };

    /// A name for files.
    pub(crate) fn name(self) -> String {
        let theme = if self.is_dark { "dark" } else { "light" };
        format!("{}-{theme}", self.width)
    }
}

/// The process between the test and the browser; both end with it.
pub(crate) struct Driver {
    process: Child,
    url: String,
}

impl Driver {
    /// `None`, said aloud, where there is no driver.
    pub(crate) fn start() -> Option<Self> {
        let Some(mut process) = DRIVERS.iter().find_map(|name| spawn(name)) else {
            skip("no chromedriver: install Debian's chromium and chromium-driver");
            return None;
        };
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let started = "was started successfully on port ";
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once(started)?;
            Some(port.trim_end_matches('.').to_owned())
        });
        // What it says later must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self {
            process,
            url: format!("http://127.0.0.1:{}", port.unwrap()),
        })
    }

    /// Opens a browser window.
    pub(crate) async fn open(&self, look: Look) -> Page {
        let scheme = if look.is_dark { 0 } else { 1 };
        let metrics = json!({
            "width": look.width, "height": look.height, "pixelRatio": 1.0,
            "touch": false, "mobile": false,
        });
        let options = json!({
            "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--disable-background-networking", "--disable-extensions",
                "--disable-crash-reporter",
                "--force-prefers-reduced-motion", "--hide-scrollbars",
                format!("--window-size={},{}", look.width.max(800), look.height),
                format!("--blink-settings=preferredColorScheme={scheme}"),
            ],
            "mobileEmulation": {"deviceMetrics": metrics},
        });
        let mut capabilities = serde_json::Map::new();
        capabilities.insert("browserName".to_owned(), json!("chrome"));
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let timeouts = json!({"script": 120_000, "pageLoad": 120_000});
        capabilities.insert("timeouts".to_owned(), timeouts);
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(capabilities).connect(&self.url).await;
        Page(client.unwrap_or_else(|error| panic!("the browser does not start: {error}")))
    }
}

fn spawn(name: &str) -> Option<Child> {
    let mut command = Command::new(name);
    command
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A group of its own, so that a browser that is left over goes with it.
        .process_group(0);
    command.spawn().ok()
}

impl Drop for Driver {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.process);
        // It closes its browsers first.
        kill_process(pid, Signal::TERM).unwrap();
        drop(self.process.wait());
        if kill_process_group(pid, Signal::KILL).is_ok() {
            println!("a browser was left over and is ended now");
        }
    }
}

/// Says that a test proves nothing here.
pub(crate) fn skip(why: &str) {
    println!("SKIPPED: {why}");
}

/// The page in a browser window.
pub(crate) struct Page(Client);

impl Page {
    /// Goes to an address, and waits until the gateway's first answers are shown.
    pub(crate) async fn go(&self, url: &str) {
        self.0.goto(url).await.unwrap();
        self.wait_for(
            "an answer",
            "return document.querySelector('#version').textContent !== ''",
        )
        .await;
    }

    /// What a script returns.
    pub(crate) async fn run(&self, script: &str) -> Value {
        let result = self.0.execute(script, vec![]).await;
        result.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    pub(crate) async fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({selector:?}).innerText");
        self.run(&script).await.as_str().unwrap().to_owned()
    }

    /// Waits until a script returns true.
    pub(crate) async fn wait_for(&self, what: &str, script: &str) {
        let began = jiff::Timestamp::now();
        while self.run(script).await != Value::Bool(true) {
            let waited = jiff::Timestamp::now().duration_since(began).unsigned_abs();
            if waited > PATIENCE {
                let all = self.text("body").await;
                panic!("waited in vain for {what}: {script}\n{all}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the text of an element holds another one.
    pub(crate) async fn wait_for_text(&self, selector: &str, text: &str) {
        let script = format!(
            "const found = document.querySelector({selector:?});
             return found !== null && found.checkVisibility() && found.innerText.includes({text:?})"
        );
        self.wait_for(text, &script).await;
    }

    /// Presses a key, wherever the focus is.
    pub(crate) async fn press(&self, keys: &str) {
        let active = self.0.active_element().await.unwrap();
        active.send_keys(keys).await.unwrap();
    }

    /// Writes the window's picture to a file that a person may look at.
    pub(crate) async fn picture(&self, name: &str) {
        let bytes = self.0.screenshot().await.unwrap();
        let directory = artefacts().join("dashboard");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), bytes).unwrap();
    }

    /// What axe-core finds wrong, one line each.
    pub(crate) async fn violations(&self, axe: &str) -> Vec<String> {
        self.run(axe).await;
        let script = "const done = arguments[arguments.length - 1];
            axe.run(document, {resultTypes: ['violations']}).then((result) => done(
                result.violations.flatMap((one) => one.nodes.map(
                    (node) => `${one.id}: ${node.target.join(' ')}: ${node.failureSummary}`))),
                (error) => done([`axe failed: ${error}`]));";
        let found = self.0.execute_async(script, vec![]).await.unwrap();
        serde_json::from_value(found).unwrap()
    }

    pub(crate) async fn close(self) {
        self.0.close().await.unwrap();
    }
}

/// The build's directory.
fn artefacts() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The script of axe-core; `None`, said aloud, where it is not installed.
pub(crate) fn axe() -> Option<String> {
    let path = artefacts().join("axe/node_modules/axe-core/axe.min.js");
    let script = std::fs::read_to_string(path).ok();
    if script.is_none() {
        skip("no axe-core: `.ci/run` installs it with npm into the target directory");
    }
    script
}
