//! The page for people, as a browser shows it. Pictures go to `target/dashboard`, to be looked at;
//! no test compares them.

mod browser;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;

use self::browser::{Driver, Look, Page, axe};
use crate::support::gateway::wait_until;
use crate::support::{Call, Consumer, TestGateway, comment_on};

/// What a stranger might write: markup that would run.
const HOSTILE: &str = "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=1</script>";

/// A gateway as it is on a bad day: dead letters, a backlog, held events, an ingress that waits
/// for its secret, and a sender who tries markup.
fn busy() -> TestGateway {
    let gateway = TestGateway::built(
        |config| {
            config.store.strikes_max = 1;
            let unset = the_loop_gateway::config::EnvName::parse("NOT_SET_IN_THE_TESTS");
            config.slack.http.signing_secret_env = unset.unwrap();
        },
        |parts| parts.intervals.sample = Duration::from_millis(40),
    );
    for (instance, number) in [
        ("laptop", 15),
        ("laptop", 16),
        ("reviewer", 17),
        ("night-shift", 40),
    ] {
        gateway.claim(instance, number);
    }
    hostile_comment(&gateway);
    for number in [17, 16, 15, 40, 40, 99] {
        gateway.comment(number);
    }
    let mut laptop = Consumer::new("laptop");
    let dead = json!({"max": 0, "commit": [{"seq": 1, "outcome": "failed", "detail": HOSTILE}]});
    laptop.fetch(&gateway, 1, &[]);
    laptop.fetch_call(&gateway, &dead).send().assert(200);
    let mut reviewer = Consumer::new("reviewer");
    reviewer.fetch(&gateway, 1, &[]);
    reviewer.fetch(&gateway, 0, &[(2, "failed")]);
    laptop.fetch(&gateway, 1, &[]);
    gateway
}

/// A comment whose sender, id and text are markup.
fn hostile_comment(gateway: &TestGateway) {
    let mut body: serde_json::Value = serde_json::from_str(&comment_on(15, 900, HOSTILE)).unwrap();
    body["sender"]["login"] = json!(HOSTILE);
    gateway
        .github("issue_comment", HOSTILE, &body.to_string())
        .send()
        .assert(202);
}

fn url(gateway: &TestGateway, hash: &str) -> String {
    format!("http://127.0.0.1:{}/{hash}", gateway.port)
}

/// Runs a test in a browser, where there is one; one at a time, because a browser takes much.
fn in_browser<F: Future<Output = ()>>(test: impl FnOnce(Driver) -> F) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = Driver::start() {
        actix_rt::System::new().block_on(test(driver));
    }
}

#[test]
fn the_page_is_one_document_with_a_policy_that_lets_nothing_else_in() {
    let gateway = TestGateway::start();
    let call = gateway.call("GET", "/");
    let reply = call.send();
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
    let policy = reply.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'self'; script-src 'sha256-"),
        "{policy}"
    );
    for part in [
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "trusted-types 'none'",
    ] {
        assert!(policy.contains(part), "{part} in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let foreign = gateway.call("GET", "/").header("Host", "evil.example");
    foreign.send().assert_error(403, "forbidden-origin");
    let foreign = gateway
        .call("GET", "/")
        .header("Origin", "http://evil.example");
    foreign.send().assert_error(403, "forbidden-origin");
    gateway
        .call("POST", "/")
        .send()
        .assert_error(405, "method-not-allowed");
}

#[test]
fn a_page_elsewhere_cannot_redrive() {
    let gateway = busy();
    let redrive = gateway
        .call("POST", "/api/v1/gateway/operator/redrive")
        .json(&json!({"all": true}));
    let foreign = redrive.clone().header("Origin", "https://evil.example");
    foreign.send().assert_error(403, "forbidden-origin");
    // What a form of another site can send without asking first.
    let form = redrive.header("Content-Type", "text/plain");
    form.send().assert_error(415, "unsupported-media-type");
    assert_eq!(
        gateway.get("/dead").assert(200)["dead"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn axe_finds_nothing_in_either_theme_on_a_phone_or_a_desk() {
    let Some(axe) = axe() else { return };
    let gateway = busy();
    wait_until("samples for the plots", || {
        let samples = gateway.get("/samples").assert(200);
        samples["times"].as_array().unwrap().len() > 40
    });
    in_browser(async |driver| {
        for (width, height) in [(400, 2_900), (1_280, 1_500)] {
            for is_dark in [false, true] {
                let look = Look {
                    width,
                    height,
                    is_dark,
                };
                let page = driver.open(look).await;
                look_over(&page, &gateway, &axe, look).await;
                page.close().await;
            }
        }
    });
}

/// The page and what opens on it: nothing is wrong with them, and nothing leaves the window.
async fn look_over(page: &Page, gateway: &TestGateway, axe: &str, look: Look) {
    let name = look.name();
    page.go(&url(gateway, "")).await;
    page.wait_for_text("#dead", "issue_comment").await;
    let scheme = "return matchMedia('(prefers-color-scheme: dark)').matches";
    assert_eq!(page.run(scheme).await, look.is_dark);
    assert_eq!(page.run("return innerWidth").await, look.width);
    assert_sound(page, axe, &name).await;
    page.picture(&name).await;
    page.run("location.hash = 'event-1'").await;
    page.wait_for_text("#story", "Delivery 1 to laptop").await;
    assert_sound(page, axe, &format!("story-{name}")).await;
    page.picture(&format!("story-{name}")).await;
    page.run("location.hash = 'dead'").await;
    page.run("document.querySelector('#dead tbody button').click()")
        .await;
    page.wait_for_text("#confirm", "first attempt").await;
    assert_sound(page, axe, &format!("redrive-{name}")).await;
    page.picture(&format!("redrive-{name}")).await;
}

async fn assert_sound(page: &Page, axe: &str, name: &str) {
    let found = page.violations(axe).await;
    assert_eq!(found, Vec::<String>::new(), "{name}: {}", found.join("\n"));
    let overflow = "return document.documentElement.scrollWidth - innerWidth";
    assert!(
        page.run(overflow).await.as_i64() <= Some(0),
        "{name} is wider than the window"
    );
}

#[test]
fn everything_there_is_has_its_place() {
    let gateway = busy();
    in_browser(async |driver| {
        let page = driver.open(Look::WIDE).await;
        page.go(&url(&gateway, "")).await;
        page.wait_for_text("#queues", "laptop").await;
        for (place, text) in [
            (
                "#overall",
                "Needs you: Slack over HTTP: secret not set; 2 dead letters",
            ),
            ("#ingresses", "GitHub webhook up"),
            ("#ingresses", "set NOT_SET_IN_THE_TESTS"),
            ("#ingresses", "Jira poll off"),
            ("#queues", "night-shift"),
            ("#queues", "never fetched"),
            ("#subjects", "github:octo/repo#15"),
            ("#subjects", "reviewer driver"),
            ("#events", "github, webhook"),
        ] {
            page.wait_for_text(place, text).await;
        }
        page.wait_for_text("#tiles", "Dead").await;
        // Words beside their dots, plots that say what they show.
        let plots = "return [...document.querySelectorAll('#queues svg[role=img]')].some(
            (plot) => plot.getAttribute('aria-label').startsWith('Backlog of laptop over'))";
        page.wait_for("a plot", plots).await;
        let own = "return performance.getEntriesByType('resource').every(
            (one) => one.name.startsWith(location.origin + '/api/v1/gateway/'))";
        assert_eq!(page.run(own).await, true, "it asks nobody else");
        page.close().await;
    });
}

#[test]
fn an_empty_gateway_says_so() {
    let gateway = TestGateway::with(|config| {
        config.github.webhook.enabled = false;
        config.jira.webhook.enabled = false;
        config.slack.http.enabled = false;
    });
    in_browser(async |driver| {
        let page = driver.open(Look::WIDE).await;
        page.go(&url(&gateway, "")).await;
        for (place, text) in [
            ("#overall", "Look at: no ingress is enabled"),
            ("#ingresses", "No ingress is enabled"),
            ("#queues", "No queue yet"),
            ("#subjects", "No subject is claimed"),
            ("#dead", "No dead letter"),
            ("#events", "Nothing has arrived yet"),
        ] {
            page.wait_for_text(place, text).await;
        }
        page.picture("empty").await;
        page.close().await;
    });
}

#[test]
fn what_strangers_wrote_stays_text() {
    let gateway = busy();
    in_browser(async |driver| {
        let page = driver.open(Look::WIDE).await;
        page.go(&url(&gateway, "#event-1")).await;
        page.wait_for_text("#story", HOSTILE).await;
        page.wait_for_text("#dead", HOSTILE).await;
        page.wait_for_text("#events", HOSTILE).await;
        page.run("document.querySelector('.payload button').click()")
            .await;
        page.wait_for_text("#story pre", "onerror").await;
        assert_eq!(page.run("return typeof window.pwned").await, "undefined");
        let made = "return document.querySelectorAll('main img, main script').length";
        assert_eq!(page.run(made).await, 0);
        page.close().await;
    });
}

#[test]
fn a_dead_letter_is_redriven_by_keyboard_alone() {
    let gateway = busy();
    in_browser(async |driver| {
        let page = driver.open(Look::WIDE).await;
        page.go(&url(&gateway, "")).await;
        page.wait_for_text("#dead", "laptop").await;
        let wanted = "const active = document.activeElement;
            return active.getAttribute('aria-label') === 'Redrive delivery 1'";
        let mut presses = 0;
        while page.run(wanted).await != true {
            presses += 1;
            assert!(presses < 80, "the button cannot be reached by Tab");
            page.press("\u{e004}").await;
        }
        page.press("\u{e007}").await;
        page.wait_for_text("#confirm", "on the queue of laptop")
            .await;
        let on_yes = "return document.activeElement.id === 'confirm-yes'";
        page.wait_for("the focus on the answer", on_yes).await;
        page.press("\u{e007}").await;
        page.wait_for_text("#redriven", "Redriven delivery 1").await;
        let dead = gateway.get("/dead").assert(200);
        assert_eq!(dead["dead"].as_array().unwrap().len(), 1, "{dead}");
        let story = gateway.get("/events/1").assert(200);
        let again = story["deliveries"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone();
        assert_eq!(
            (&again["redriveOf"], &again["state"]),
            (&json!(1), &json!("ready"))
        );
        page.wait_for(
            "it is not shown as dead any more",
            "return document.querySelectorAll('#dead tbody tr').length === 1",
        )
        .await;
        page.close().await;
    });
}

#[test]
fn an_event_is_found_by_its_number_and_events_by_their_subject() {
    let gateway = busy();
    in_browser(async |driver| {
        let page = driver.open(Look::WIDE).await;
        page.go(&url(&gateway, "")).await;
        let fill = |text: &str| {
            format!(
                "document.querySelector('#find-text').value = {text:?};
                 document.querySelector('#find button').click()"
            )
        };
        page.run(&fill("7")).await;
        page.wait_for_text("#story", "It is on no queue").await;
        let focused = "return document.activeElement.id === 'story-title'";
        page.wait_for("the focus on the story", focused).await;
        page.run(&fill("4711")).await;
        page.wait_for_text("#story", "There is no event 4711").await;
        page.run(&fill("loop-github-octo-repo-40")).await;
        page.wait_for_text("#filter", "loop-github-octo-repo-40")
            .await;
        let count = "return document.querySelectorAll('#events tbody tr').length === 2";
        page.wait_for("the two events", count).await;
        page.run(&fill("loop-nonsense!")).await;
        page.wait_for_text("#events .problem", "subject").await;
        page.run("document.querySelector('#filter button').click()")
            .await;
        page.wait_for(
            "all events",
            "return document.querySelectorAll('#events tbody tr').length === 7",
        )
        .await;
        page.close().await;
    });
}

#[test]
fn times_are_exact_on_demand() {
    let gateway = busy();
    in_browser(async |driver| {
        let page = driver.open(Look::WIDE).await;
        page.go(&url(&gateway, "")).await;
        page.wait_for_text("#events", "ago").await;
        page.run("document.querySelector('#exact-times').click()")
            .await;
        let year = jiff::Timestamp::now().strftime("%Y").to_string();
        page.wait_for_text("#events tbody", &year).await;
        assert!(!page.text("#events tbody").await.contains("ago"));
        page.close().await;
    });
}

#[test]
fn a_gateway_that_is_gone_is_missed_and_welcomed_back() {
    let mut gateway = busy();
    gateway.keep_port();
    in_browser(async |driver| {
        let page = driver.open(Look::WIDE).await;
        page.go(&url(&gateway, "")).await;
        page.wait_for_text("#dead", "laptop").await;
        gateway.stop();
        page.wait_for_text("#outage", "does not answer").await;
        page.wait_for_text("#overall", "No answer").await;
        assert!(
            page.text("#dead").await.contains("laptop"),
            "what was known stays"
        );
        page.picture("outage").await;
        gateway.restart();
        page.wait_for(
            "it is welcomed back",
            "return document.querySelector('#outage').hidden",
        )
        .await;
        page.close().await;
    });
}

#[test]
fn the_page_does_not_answer_where_only_providers_do() {
    let gateway = TestGateway::with(|config| {
        config.listen.ingress = Some(the_loop_gateway::config::Address {
            host: "127.0.0.1".to_owned(),
            port: 0,
        });
    });
    assert_ne!(gateway.port, gateway.ingress_port);
    for path in ["/", "/metrics", "/api/v1/gateway/samples"] {
        let call = Call::new(gateway.ingress_port, "GET", path);
        call.send().assert_error(404, "not-found");
    }
}
