//! Pages of lists, as tests ask for them.

use serde::Serialize;
use serde_json::Value;

use super::support::TestStore;
use crate::store::views::{Page, PageRequest};

pub(super) fn all() -> PageRequest {
    PageRequest {
        limit: 100,
        after: None,
    }
}

pub(super) fn shown<T: Serialize>(page: &Page<T>) -> Value {
    serde_json::to_value(&page.rows).unwrap()
}

pub(super) fn time(store: &TestStore) -> String {
    store.now().to_string()
}

/// Walks a list page by page and gathers a column.
pub(super) fn walk<T: Serialize>(
    limit: u32,
    column: &str,
    mut list: impl FnMut(&PageRequest) -> Page<T>,
) -> Vec<Vec<Value>> {
    let mut request = PageRequest { limit, after: None };
    let mut pages = Vec::new();
    loop {
        let page = list(&request);
        let rows = page.rows.iter().map(|row| {
            let row = serde_json::to_value(row).unwrap();
            row[column].clone()
        });
        pages.push(rows.collect());
        match page.next {
            Some(next) => request.after = Some(next),
            None => return pages,
        }
    }
}
