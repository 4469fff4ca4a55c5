//! The provider's bytes, compressed once and never re-serialised.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{self, CParameter};

/// Level 1: the ingest path pays for it, and higher levels gain little on JSON.
const ZSTD_LEVEL: i32 = 1;

/// A buffer that grew beyond this for one long text is not kept.
const BUFFER_KEPT_MAX: usize = 256 * 1024;

thread_local! {
    /// Making a compressor costs as much as compressing a comment with it: one a thread, kept.
    static COMPRESSOR: RefCell<Option<Kept>> = const { RefCell::new(None) };
    /// The same of a decompressor: making one costs ten times a small comment.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

struct Kept {
    compressor: Compressor<'static>,
    /// As long as the worst case; what comes out of it is a third.
    buffer: Vec<u8>,
}

/// A JSON text, zstd-compressed; what comes out is byte for byte what went in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    compressed: Vec<u8>,
    bytes: u64,
}

/// A stored payload that does not decompress to its recorded length.
#[derive(Debug, thiserror::Error)]
#[error("the payload is damaged: {0}")]
pub struct PayloadDamaged(String);

impl Payload {
    /// Compresses a text. Runs on the caller's thread, before the append, so that the writer
    /// only copies bytes. The frame carries a checksum.
    ///
    /// # Errors
    /// When the compressor fails, which for in-memory buffers means out of memory.
    pub fn compress(text: &[u8]) -> std::io::Result<Self> {
        COMPRESSOR.with_borrow_mut(|slot| {
            // Taken out, so that one that failed in the middle of a frame is not used again.
            let mut kept = match slot.take() {
                Some(kept) => kept,
                None => Kept::new()?,
            };
            let compressed = kept.compress(text)?;
            *slot = Some(kept);
            Ok(Self {
                compressed,
                bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
            })
        })
    }

    /// A payload as it lies in the store; `bytes` is the length of the text.
    #[must_use]
    pub const fn from_stored(compressed: Vec<u8>, bytes: u64) -> Self {
        Self { compressed, bytes }
    }

    /// The compressed form.
    #[must_use]
    pub fn compressed(&self) -> &[u8] {
        &self.compressed
    }

    /// The length of the text in bytes.
    #[must_use]
    pub const fn text_bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends the text to `out`; nothing when it is damaged.
    ///
    /// # Errors
    /// When the stored bytes are not what was compressed.
    pub fn decompress_into(&self, out: &mut Vec<u8>) -> Result<(), PayloadDamaged> {
        let before = out.len();
        let done = self.decompress_behind(out);
        if done.is_err() {
            out.truncate(before);
        }
        done
    }

    fn decompress_behind(&self, out: &mut Vec<u8>) -> Result<(), PayloadDamaged> {
        let wrong_length = || PayloadDamaged(format!("{} bytes expected", self.bytes));
        let bytes = usize::try_from(self.bytes).map_err(|_too_long| wrong_length())?;
        // Before room is made: a length that is damaged can be any.
        let told = zstd_safe::get_frame_content_size(&self.compressed);
        if told.is_ok_and(|told| told.is_some_and(|told| told != self.bytes)) {
            return Err(wrong_length());
        }
        let before = out.len();
        out.try_reserve(bytes).map_err(|_no_room| wrong_length())?;
        out.resize(before.saturating_add(bytes), 0);
        let room = out.get_mut(before..).unwrap_or_default();
        let got = DECOMPRESSOR.with_borrow_mut(|slot| {
            let mut decompressor = match slot.take() {
                Some(kept) => kept,
                None => Decompressor::new()?,
            };
            let got = decompressor.decompress_to_buffer(&self.compressed, room)?;
            *slot = Some(decompressor);
            Ok(got)
        });
        let got = got.map_err(|error: std::io::Error| PayloadDamaged(error.to_string()))?;
        if got == bytes {
            Ok(())
        } else {
            Err(wrong_length())
        }
    }

    /// The text.
    ///
    /// # Errors
    /// As [`Payload::decompress_into`].
    pub fn text(&self) -> Result<Vec<u8>, PayloadDamaged> {
        let mut out = Vec::new();
        self.decompress_into(&mut out)?;
        Ok(out)
    }
}

impl Kept {
    fn new() -> std::io::Result<Self> {
        let mut compressor = Compressor::new(ZSTD_LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self {
            compressor,
            buffer: Vec::new(),
        })
    }

    fn compress(&mut self, text: &[u8]) -> std::io::Result<Vec<u8>> {
        self.buffer.clear();
        self.buffer.reserve(zstd_safe::compress_bound(text.len()));
        self.compressor.compress_to_buffer(text, &mut self.buffer)?;
        let compressed = self.buffer.as_slice().to_vec();
        if self.buffer.capacity() > BUFFER_KEPT_MAX {
            self.buffer = Vec::new();
        }
        Ok(compressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_comes_back_byte_for_byte() {
        for text in [&b"{}"[..], b"{\"a\": \"\\ud800\"}", &[b' '; 100_000]] {
            let payload = Payload::compress(text).unwrap();
            let stored = Payload::from_stored(payload.compressed().to_vec(), payload.text_bytes());
            assert_eq!(stored.text().unwrap(), text);
        }
    }

    #[test]
    fn a_text_follows_what_is_there_and_a_damaged_one_leaves_it_as_it_was() {
        let payload = Payload::compress(b"{\"a\":1}").unwrap();
        let mut out = b"before".to_vec();
        payload.decompress_into(&mut out).unwrap();
        assert_eq!(out, b"before{\"a\":1}");
        let mut bytes = payload.compressed().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        for damaged in [
            Payload::from_stored(bytes, 7),
            Payload::from_stored(payload.compressed().to_vec(), u64::MAX),
            Payload::from_stored(Vec::new(), 7),
            Payload::from_stored(b"no frame at all".to_vec(), u64::MAX / 2),
        ] {
            assert!(damaged.decompress_into(&mut out).is_err());
            assert_eq!(out, b"before{\"a\":1}");
        }
        // The next one is whole again.
        assert_eq!(payload.text().unwrap(), b"{\"a\":1}");
    }

    #[test]
    fn a_damaged_payload_is_an_error_and_no_text() {
        let payload = Payload::compress(&[b'x'; 1000]).unwrap();
        let mut bytes = payload.compressed().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        assert!(Payload::from_stored(bytes, 1000).text().is_err());
        assert!(
            Payload::from_stored(payload.compressed().to_vec(), 999)
                .text()
                .is_err()
        );
        assert!(
            Payload::from_stored(payload.compressed().to_vec(), 1001)
                .text()
                .is_err()
        );
    }
}
