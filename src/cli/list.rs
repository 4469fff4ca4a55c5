//! What the three lists share: where the rows come from, and how they are written.

use clap::{Args, ValueEnum};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::{Api, BaseUrl};
use super::context::{Context, api_of};
use super::failure::Failure;
use super::file;
use super::shown::Times;
use super::table::{Column, TableRow, render};
use crate::domain::{Clock, Timestamp};

/// How data is written: in a table for people, or as JSON for programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    #[default]
    Table,
    Json,
}

/// The options of every list.
#[derive(Debug, Default, Args)]
pub(super) struct ListOptions {
    /// The gateway's API, as http://host:port [default: the address of the config]
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// How to write the rows: for people, or as the API's rows, all pages in one
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Show moments as they are, in UTC, and not by their distance
    #[arg(long)]
    pub(super) absolute: bool,
}

impl ListOptions {
    /// How moments are written.
    pub(super) fn times(&self, now: Timestamp) -> Times {
        if self.absolute {
            Times::Absolute
        } else {
            Times::RelativeTo(now)
        }
    }
}

/// One list of the API.
pub(super) struct List<R> {
    /// Its name in the path and in the answer.
    pub(super) name: &'static str,
    /// Its rows in the file of a gateway that is down.
    pub(super) file: file::Rows,
    /// The columns of its table.
    pub(super) columns: &'static [Column],
    /// One row of its table.
    pub(super) row: fn(&R, Times) -> TableRow,
    /// What stands below the table, or in its place when there are no rows.
    pub(super) summary: fn(&[R]) -> String,
}

impl<R: DeserializeOwned> List<R> {
    /// Reads the rows and writes them.
    pub(super) fn perform(&self, options: &ListOptions, context: &Context) -> Result<(), Failure> {
        let rows = Context::wait_for(self.rows(options, context))?;
        let shown = match options.format {
            Format::Json => {
                let list = json!({ self.name: rows });
                serde_json::to_string_pretty(&list).map_err(Failure::Rows)?
            }
            Format::Table => {
                let rows: Vec<R> =
                    serde_json::from_value(Value::Array(rows)).map_err(Failure::Rows)?;
                self.table(&rows, options.times(context.clock.now()), context)
            }
        };
        context.output.data(&shown)
    }

    fn table(&self, rows: &[R], times: Times, context: &Context) -> String {
        let summary = (self.summary)(rows);
        if rows.is_empty() {
            return summary;
        }
        let shown: Vec<TableRow> = rows.iter().map(|row| (self.row)(row, times)).collect();
        format!(
            "{}\n\n{summary}",
            render(self.columns, &shown, context.output)
        )
    }

    async fn rows(&self, options: &ListOptions, context: &Context) -> Result<Vec<Value>, Failure> {
        if let Some(url) = &options.url {
            let (base, _) = BaseUrl::parse(url).ok_or_else(|| Failure::Url(url.clone()))?;
            return self.ask(base).await;
        }
        let loaded = context.load_with_warnings()?;
        let asked = match api_of(&loaded.config) {
            Ok(base) => self.ask(base).await,
            Err(failure) => Err(failure),
        };
        let absent = match asked {
            Err(Failure::Down(error)) => error.to_string(),
            Err(failure @ Failure::PortUnknown) => failure.to_string(),
            Ok(rows) => return Ok(rows),
            Err(failure) => return Err(failure),
        };
        let path = &loaded.config.store_path;
        let rows = file::rows(self.file, path, context.clock.now())?;
        context
            .output
            .note(&format!("{absent}; this is what {} holds", path.display()));
        Ok(rows)
    }

    async fn ask(&self, base: BaseUrl) -> Result<Vec<Value>, Failure> {
        let path = format!("/api/v1/gateway/{}", self.name);
        Ok(Api::new(base)?.get_all(&path, self.name).await?)
    }
}
