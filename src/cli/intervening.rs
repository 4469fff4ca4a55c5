//! What the verbs that change something share: they go through the running gateway, whose writer
//! is the only one, and each can say first what it would do.

use std::time::Duration;

use awc::http::Method;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::api::{Api, BaseUrl};
use super::context::{Context, api_of};
use super::failure::Failure;
use super::list::Format;
use super::shown::{NONE, count, plain};
use super::table::{Column, TableRow, render};
use super::trouble::Trouble;

/// The options of every verb that changes something.
#[derive(Debug, Args)]
pub(super) struct ChangeOptions {
    /// Say what would be done, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// The gateway's API, as http://host:port [default: the address of the config]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// How to write what was done
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

impl ChangeOptions {
    /// The running gateway.
    ///
    /// # Errors
    /// When the config does not say where it is.
    pub(super) fn gateway(&self, context: &Context) -> Result<Api, Failure> {
        let base = match &self.url {
            Some(url) => {
                BaseUrl::parse(url)
                    .ok_or_else(|| Failure::Url(url.clone()))?
                    .0
            }
            None => api_of(&context.load_with_warnings()?.config)?,
        };
        Ok(Api::new(base)?)
    }

    /// Asks for a change, or for what it would be.
    ///
    /// # Errors
    /// When the gateway does not answer, or says no.
    pub(super) async fn ask(&self, api: &Api, verb: &str, body: &Value) -> Result<Value, Failure> {
        let dry_run = if self.dry_run { "?dryRun=true" } else { "" };
        let path = format!("/api/v1/gateway/operator/{verb}{dry_run}");
        Ok(api.send(Method::POST, &path, body, Duration::ZERO).await?)
    }
}

/// The fields of a request that are texts, without those that were not given.
pub(super) fn texts_of<'n>(
    texts: impl IntoIterator<Item = (&'n str, Option<String>)>,
) -> Map<String, Value> {
    texts
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), Value::String(text?))))
        .collect()
}

/// What a redrive or replay appended, or would.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Appended {
    dry_run: bool,
    pub(super) appended: u64,
    pub(super) skipped: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<i64>,
    deliveries: Vec<AppendedDelivery>,
    /// True when the selection holds more than was looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) more: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppendedDelivery {
    seq: Option<i64>,
    instance: String,
    event_id: i64,
    redrive_of: Option<i64>,
}

const COLUMNS: &[Column] = &[
    Column::Number("delivery"),
    Column::Text("instance"),
    Column::Number("event"),
    Column::Number("instead of"),
];

impl Appended {
    /// Adds what the next part did.
    pub(super) fn extend(&mut self, next: Self) {
        self.dry_run = next.dry_run;
        self.appended = self.appended.saturating_add(next.appended);
        self.skipped = self.skipped.saturating_add(next.skipped);
        self.unknown.extend(next.unknown);
        self.deliveries.extend(next.deliveries);
        self.more = next.more;
    }

    /// Writes it; `past` is the verb in the past, such as `redriven`, and `what` it was given by
    /// number.
    ///
    /// # Errors
    /// When the output cannot be written, and when there is nothing of a number.
    pub(super) fn write(
        &self,
        past: &str,
        what: &'static str,
        format: Format,
        context: &Context,
    ) -> Result<(), Failure> {
        let shown = match format {
            Format::Json => serde_json::to_string_pretty(self).map_err(Failure::Rows)?,
            Format::Table => self.told(past, context),
        };
        context.output.data(&shown)?;
        if self.unknown.is_empty() {
            return Ok(());
        }
        let numbers = self.unknown.iter().map(ToString::to_string).collect();
        Err(Trouble::NoSuch { what, numbers }.into())
    }

    fn told(&self, past: &str, context: &Context) -> String {
        let summary = self.summary(past);
        if self.deliveries.is_empty() {
            return summary;
        }
        let number = |number: Option<i64>| number.map_or(NONE.to_owned(), |seq| seq.to_string());
        let rows: Vec<TableRow> = self
            .deliveries
            .iter()
            .map(|delivery| TableRow {
                cells: vec![
                    number(delivery.seq),
                    plain(&delivery.instance),
                    delivery.event_id.to_string(),
                    number(delivery.redrive_of),
                ],
                alarming: false,
            })
            .collect();
        format!("{}\n\n{summary}", render(COLUMNS, &rows, context.output))
    }

    fn summary(&self, past: &str) -> String {
        let done = count(self.appended, "delivery", "deliveries");
        let would = if self.dry_run { " would be" } else { "" };
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(
                "; {} skipped: not dead, replaced, waiting already, without a consumer today, or \
                 without a payload",
                super::shown::number(skipped)
            ),
        };
        let more = if self.more {
            "; there are more than these"
        } else {
            ""
        };
        format!("{done}{would} {past}{skipped}{more}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_done_is_counted_over_all_parts() {
        let part = |seq: i64, more: bool| {
            let delivery = json!({"seq": seq, "instance": "a", "eventId": 1, "redriveOf": 2});
            let mut part = json!({
                "dryRun": false, "appended": 1, "skipped": 1, "deliveries": [delivery],
            });
            if more {
                part["more"] = json!(true);
            }
            serde_json::from_value::<Appended>(part).unwrap()
        };
        let mut all = Appended::default();
        all.extend(part(3, true));
        assert!(all.more);
        all.extend(part(4, false));
        let summary = all.summary("redriven");
        assert!(
            summary.starts_with("2 deliveries redriven; 2 skipped: "),
            "{summary}"
        );
        assert!(!summary.ends_with("these"));
        assert_eq!(all.deliveries.len(), 2);
    }

    #[test]
    fn a_dry_run_says_would() {
        let dry = Appended {
            dry_run: true,
            appended: 500,
            more: true,
            ..Appended::default()
        };
        assert_eq!(
            dry.summary("redriven"),
            "500 deliveries would be redriven; there are more than these"
        );
    }
}
