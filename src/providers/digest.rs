//! Hashes of what arrived: the identity of last resort.

use sha2::{Digest, Sha256};

use super::clipped;
use crate::domain::DedupKey;

const FALLBACK_DIGITS: usize = 16;
/// What a key of an index may take; the ids of the providers are far shorter.
const KEY_BYTES_MAX: usize = 1_024;

/// The SHA-256 of some bytes in lower-case hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The delivery id of a body to which the provider gave none.
pub(super) fn fallback_delivery_id(body: &[u8]) -> String {
    let digits: String = sha256(body).chars().take(FALLBACK_DIGITS).collect();
    format!("sha256-{digits}")
}

/// The same keys, none of them long: of one that is, the hash stands behind its beginning, so that
/// two of them are still two.
pub(super) fn bounded(keys: Vec<DedupKey>) -> Vec<DedupKey> {
    keys.into_iter()
        .map(|key| {
            if key.text.len() <= KEY_BYTES_MAX {
                return key;
            }
            let hash = sha256(key.text.as_bytes());
            let text = format!("{}:sha256:{hash}", clipped(&key.text));
            DedupKey { text, ..key }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_becomes_a_short_one_that_still_tells_it_from_others() {
        let key =
            |end: &str| DedupKey::object(format!("slack:T1:{}{end}", "\u{1f600}".repeat(300)));
        let keys = bounded(vec![
            DedupKey::delivery("slack:T1:Ev1".to_owned()),
            key("1"),
            key("2"),
        ]);
        assert_eq!(keys[0], DedupKey::delivery("slack:T1:Ev1".to_owned()));
        assert!(keys[1].text.starts_with("slack:T1:\u{1f600}"));
        assert!(keys[1].text.len() <= KEY_BYTES_MAX);
        assert_ne!(keys[1], keys[2]);
        assert_eq!(keys[1..], bounded(vec![key("1"), key("2")]));
    }

    #[test]
    fn a_fallback_id_is_the_head_of_the_hash() {
        assert!(sha256(b"").starts_with("e3b0c44298fc1c149afbf4c8996fb924"));
        assert_eq!(fallback_delivery_id(b""), "sha256-e3b0c44298fc1c14");
    }
}
