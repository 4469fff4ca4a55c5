//! Reading the headers of a request without knowing the server's types.

use std::collections::BTreeMap;

/// The headers of a request; names are given in lower case.
pub trait Headers {
    /// The first value of a header as raw bytes; a header may hold any of them.
    fn bytes(&self, name: &str) -> Option<&[u8]>;

    /// The first value as text; `None` when absent, blank or not ASCII.
    fn text(&self, name: &str) -> Option<&str> {
        let text = std::str::from_utf8(self.bytes(name)?).ok()?.trim();
        (!text.is_empty() && text.is_ascii()).then_some(text)
    }
}

impl Headers for BTreeMap<String, String> {
    fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(String::as_bytes)
    }
}

/// The named headers, as they are stored beside a payload.
pub(super) fn stored(headers: &dyn Headers, names: &[&str]) -> BTreeMap<String, String> {
    let present = |name: &&str| Some(((*name).to_owned(), clipped(headers.text(name)?)));
    names.iter().filter_map(present).collect()
}

const CLIP_CHARS: usize = 200;

/// A text that a stranger chose, cut to 200 characters for a record.
#[must_use]
pub fn clipped(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(CLIP_CHARS)
        .collect()
}
