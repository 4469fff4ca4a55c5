//! Reading a list that is sorted by change, oldest first, from a moment on.
//!
//! The URL stays the same until it brings something new, so that its ETag holds and an unchanged
//! list costs one 304. A long list is not read by page numbers where that can be avoided: whatever
//! changes meanwhile moves to its end, and what stood behind it slips to a page that was read
//! already. The next page is asked for by the moment at which the last one ended.
//!
//! The moment reaches back a little, because lists lag and it is not told whether they include it;
//! what is in there twice is known by its id, and if it is an item by its moment too: items come
//! again with each change, comments with each edit, which is not told.

use std::collections::BTreeSet;
use std::time::Duration;

use super::item::entry;
use crate::actors::poller::failure::Failure;
use crate::actors::poller::http::{Answer, Api, Page};
use crate::actors::poller::json;
use crate::actors::poller::moment;
use crate::domain::{Millis, Timestamp};
use crate::store::PollList;

/// How far a list is read again.
const OVERLAP_MS: Millis = 60_000;
/// Moments are whole seconds: what changed in the second of the answer can change in it again.
const HOT_MS: Millis = 1_000;
/// Pages of one list in one round; the rest follows at once in the next.
const PAGES_MAX: usize = 5;
/// Pages of one list when it cannot be left earlier.
const TIED_PAGES_MAX: usize = 100;
/// Pages of a list that is sorted newest first: it cannot be left half read.
const NEWEST_PAGES_MAX: usize = 20;

/// What a list brought.
#[derive(Debug)]
pub(super) struct Changes {
    /// Where to go on once this is stored.
    pub(super) list: PollList,
    /// What was not told before, each as sent, oldest first.
    pub(super) entries: Vec<String>,
    /// What happened before is history or was told.
    pub(super) floor: Timestamp,
    /// True when there is more to read at once.
    pub(super) more: bool,
    /// True when the list was found under another URL.
    pub(super) moved: bool,
    pub(super) poll_interval: Option<Duration>,
}

/// A list of changes: its URL without the moment, and what is known of it.
pub(super) struct Listing<'a> {
    pub(super) url: String,
    pub(super) known: &'a PollList,
    /// True for issues and pull requests, which are told with each change.
    pub(super) is_of_items: bool,
}

impl Listing<'_> {
    /// The floor of the rounds before that left the list unfinished: it holds to the list's end,
    /// for what was edited meanwhile stands there however old it is.
    fn unfinished(&self) -> Option<Timestamp> {
        moment::parse(&self.known.note)
    }

    /// From when on to ask: a little before what was told, unless the rest of a long list follows.
    fn since(&self) -> Timestamp {
        let overlap = match self.unfinished() {
            Some(_) => HOT_MS,
            None => OVERLAP_MS,
        };
        moment::before(self.known.watermark, overlap)
    }

    fn floor(&self) -> Timestamp {
        let floor = self.unfinished().unwrap_or_else(|| self.since());
        floor.max(self.known.baseline)
    }

    fn url_since(&self, since: Timestamp) -> String {
        format!("{}&since={}", self.url, moment::in_seconds(since))
    }

    /// What an entry is known by among what was told: an item that changed is another entry, a
    /// comment that was edited is the same.
    fn known_by<'a>(&self, entry: &'a str) -> &'a str {
        match entry.split_once('@') {
            Some((id, _)) if !self.is_of_items => id,
            _ => entry,
        }
    }

    /// Reads what changed; `None` when nothing did.
    pub(super) async fn read(&self, api: &Api) -> Result<Option<Changes>, Failure> {
        let since = self.since();
        let url = self.url_since(since);
        let is_same = self.known.url == url;
        let etag = if is_same { &self.known.etag } else { "" };
        let Answer::Page(page) = api.get_if_changed(&url, etag).await? else {
            return Ok(None);
        };
        let mut reading = Reading::of(self, since);
        let etag = page.etag.clone();
        let mut next = reading.take(self, &page)?;
        // A list is left only where the next round can go on behind what this one read.
        while reading.pages < PAGES_MAX || reading.newest <= self.known.watermark {
            let Some(url) = next.take().filter(|_| reading.pages < TIED_PAGES_MAX) else {
                break;
            };
            let page = api.get(&url).await?;
            next = reading.take(self, &page)?;
        }
        Ok(Some(reading.end(self, url, etag, next.is_some())))
    }

    /// Reads what changed on a list that knows no moments and is sorted newest first, back to
    /// where it was read before. Whatever changes meanwhile only pushes the rest down.
    pub(super) async fn read_newest_first(&self, api: &Api) -> Result<Option<Changes>, Failure> {
        let url = self.url.clone();
        let is_same = self.known.url == url;
        let etag = if is_same { &self.known.etag } else { "" };
        let Answer::Page(mut page) = api.get_if_changed(&url, etag).await? else {
            return Ok(None);
        };
        let (etag, since) = (page.etag.clone(), self.since());
        let mut reading = Reading::of(self, since);
        for _ in 0..NEWEST_PAGES_MAX {
            reading.take(self, &page)?;
            let reached = reading.listed.last().is_none_or(|(_, at)| *at < since);
            match page.next.take().filter(|_| !reached) {
                Some(next) => page = api.get(&next).await?,
                None => break,
            }
        }
        let mut changes = reading.end(self, url, String::new(), false);
        let is_new = |raw: &String| entry(raw).is_some_and(|(_, updated)| updated >= since);
        changes.entries.retain(is_new);
        changes.entries.reverse();
        if changes.entries.is_empty() {
            changes.list.etag = etag;
        }
        Ok(Some(changes))
    }
}

/// A list while it is read.
struct Reading {
    since: Timestamp,
    /// The newest moment so far.
    newest: Timestamp,
    /// Everything that was listed, with its moment.
    listed: Vec<(String, Timestamp)>,
    entries: Vec<String>,
    /// What was told before, or stands among the entries.
    seen: BTreeSet<String>,
    hot_from: Timestamp,
    pages: usize,
    moved: bool,
    poll_interval: Option<Duration>,
}

impl Reading {
    fn of(listing: &Listing<'_>, since: Timestamp) -> Self {
        let told = listing.known.handled.iter();
        Self {
            since,
            newest: listing.known.watermark,
            listed: Vec::new(),
            entries: Vec::new(),
            seen: told
                .map(|entry| listing.known_by(entry).to_owned())
                .collect(),
            hot_from: Timestamp(i64::MAX),
            pages: 0,
            moved: false,
            poll_interval: None,
        }
    }

    /// Takes a page; tells the URL of the next one.
    fn take(&mut self, listing: &Listing<'_>, page: &Page) -> Result<Option<String>, Failure> {
        self.pages = self.pages.saturating_add(1);
        self.moved |= page.moved;
        self.poll_interval = self.poll_interval.max(page.poll_interval);
        if listing.is_of_items {
            self.hot_from = self.hot_from.min(moment::before(page.date, HOT_MS));
        }
        let mut last = self.since;
        for raw in json::items(&page.body)? {
            let Some((id, updated)) = entry(raw) else {
                tracing::debug!("a list item without id or moment is passed over");
                continue;
            };
            let key = format!("{id}@{}", moment::in_seconds(updated));
            if self.seen.insert(listing.known_by(&key).to_owned()) {
                self.entries.push(raw.to_owned());
            }
            self.listed.push((key, updated));
            last = last.max(updated);
        }
        self.newest = self.newest.max(last);
        let Some(link) = &page.next else {
            return Ok(None);
        };
        let since = moment::before(last, HOT_MS);
        if since <= self.since {
            // More in one second than a page holds: only the page number leads on.
            return Ok(Some(link.clone()));
        }
        self.since = since;
        Ok(Some(listing.url_since(since)))
    }

    fn end(self, listing: &Listing<'_>, url: String, etag: String, is_left: bool) -> Changes {
        let known = listing.known;
        let floor = listing.floor();
        let more = is_left && self.newest > known.watermark;
        let is_hot = self.listed.iter().any(|(_, at)| *at >= self.hot_from);
        let is_settled = self.newest == known.watermark && self.pages == 1 && !is_hot;
        let list = PollList {
            watermark: self.newest,
            url,
            etag: if is_settled { etag } else { String::new() },
            handled: self.handled(known),
            note: if more {
                moment::in_seconds(floor)
            } else {
                String::new()
            },
            ..known.clone()
        };
        Changes {
            list,
            entries: self.entries,
            floor,
            more,
            moved: self.moved,
            poll_interval: self.poll_interval,
        }
    }

    /// What is listed again next time and is not to be told again.
    fn handled(&self, known: &PollList) -> BTreeSet<String> {
        let kept_from = moment::before(self.newest, OVERLAP_MS);
        let told = known.handled.iter().filter_map(|entry| {
            let (_, at) = entry.split_once('@')?;
            Some((entry, moment::parse(at)?))
        });
        let listed = self.listed.iter().map(|(entry, at)| (entry, *at));
        told.chain(listed)
            .filter(|(_, at)| *at >= kept_from && *at < self.hot_from)
            .map(|(entry, _)| entry.clone())
            .collect()
    }
}
