//! What to type next: `curl` lines that work as they stand.

use std::path::Path;

use serde_json::{Value, json};

use super::{Comment, WAIT_SECONDS, identified};
use crate::cli::api::{Api, BaseUrl};
use crate::cli::context::Context;
use crate::cli::failure::Failure;

const COMMENT_FILE: &str = "second-comment.json";
const JSON: &str = "-H 'Content-Type: application/json'";

/// Writes the body of a second comment, and says how to send, fetch and commit it.
pub(super) fn tell(
    api: &Api,
    second: &Comment,
    cursor: u64,
    scratch: &Path,
    context: &Context,
) -> Result<(), Failure> {
    let file = scratch.join(COMMENT_FILE);
    std::fs::write(&file, &second.body).map_err(|fault| Failure::Write {
        path: file.clone(),
        fault,
    })?;
    let base = api.base();
    context.output.say(&format!(
        "\n\
         It stays up; go on in another terminal. Ctrl-C ends it and removes its state.\n\
         \n\
         Send a second comment; the signature is the one of this file:\n  {}\n\
         Fetch it; the cursor says what arrived so far:\n  {}\n\
         Commit it, with the seq of the answer in place of SEQ:\n  {}\n\
         Look around:\n  curl -sS {}\n  the-loop-gateway queues --url {base}",
        send(base, second, &file),
        fetch(base, cursor),
        commit(base),
        base.at("/api/v1/gateway/subjects"),
    ));
    Ok(())
}

fn send(base: &BaseUrl, comment: &Comment, file: &Path) -> String {
    let headers: Vec<String> = comment
        .headers
        .iter()
        .map(|(name, value)| format!("-H '{name}: {value}'"))
        .collect();
    let (url, headers) = (base.at("/gh-webhook"), headers.join(" "));
    format!(
        "curl -sS {url} {headers} --data-binary '@{}'",
        file.display()
    )
}

fn fetch(base: &BaseUrl, cursor: u64) -> String {
    let ask = identified(json!({"cursor": cursor, "wait": WAIT_SECONDS}));
    post(base, "/api/v1/gateway/fetch", &ask.to_string())
}

fn commit(base: &BaseUrl) -> String {
    let outcomes = identified(json!({"commit": [{"seq": Value::Null, "outcome": "delivered"}]}));
    let outcomes = outcomes.to_string().replace("\"seq\":null", "\"seq\":SEQ");
    post(base, "/api/v1/gateway/commit", &outcomes)
}

fn post(base: &BaseUrl, path: &str, body: &str) -> String {
    format!("curl -sS {} {JSON} -d '{body}'", base.at(path))
}
