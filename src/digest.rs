//! SHA-256 as lower-case hexadecimal: for what must be told apart without being shown.

use sha2::{Digest, Sha256};

/// Characters of a fingerprint.
const FINGERPRINT_CHARS: usize = 16;

/// The digest of some bytes, 64 characters.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Enough of a digest to recognise what one already knows, and nothing else.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    let mut digest = sha256_hex(text.as_bytes());
    digest.truncate(FINGERPRINT_CHARS);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_beginning_of_the_digest() {
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(fingerprint("abc"), "ba7816bf8f01cfea");
    }
}
