//! Hashes of what arrived: the identity of last resort.

use sha2::{Digest, Sha256};

const FALLBACK_DIGITS: usize = 16;

/// The SHA-256 of some bytes in lower-case hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The delivery id of a body to which the provider gave none.
pub(super) fn fallback_delivery_id(body: &[u8]) -> String {
    let digits: String = sha256(body).chars().take(FALLBACK_DIGITS).collect();
    format!("sha256-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fallback_id_is_the_head_of_the_hash() {
        assert!(sha256(b"").starts_with("e3b0c44298fc1c149afbf4c8996fb924"));
        assert_eq!(fallback_delivery_id(b""), "sha256-e3b0c44298fc1c14");
    }
}
