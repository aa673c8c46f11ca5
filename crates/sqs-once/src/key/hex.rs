//! Hexadecimal digits.

use std::fmt;

use sha2::{Digest, Sha256};

/// A SHA-256 or HMAC-SHA-256 in hexadecimal digits. It is on the stack, because every message needs one or two.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct HexDigest([u8; 64]);

impl HexDigest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::end(Sha256::new_with_prefix(bytes))
    }

    pub(crate) fn end(hash: Sha256) -> Self {
        Self::from_bytes(hash.finalize())
    }

    pub(super) fn from_bytes(hash: impl IntoIterator<Item = u8>) -> Self {
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(hash) {
            pair.copy_from_slice(&digits_of(byte));
        }
        Self(digits)
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are ASCII")
    }
}

impl fmt::Display for HexDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend(digits_of(*byte).map(char::from));
    }
    text
}

fn digits_of(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)])
}
