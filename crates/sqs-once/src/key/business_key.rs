//! The identity of a business event.

use std::fmt;

use super::{HexDigest, KeyError, KeyPart, KeyWriter, readable};

/// The identity of a business event, such as an order number. Two messages with the same key are the same event, and
/// its effect happens once.
///
/// A key has one or more parts. Each part is encoded with its kind and length, so that different lists of parts never
/// share a key: `("a", "bc")` and `("ab", "c")` differ, and so do `1` and `"1"`. Integers are equal by value, whatever
/// their width.
///
/// ```
/// use sqs_once::BusinessKey;
///
/// let one = BusinessKey::new(&("tenant-7", 42_u32))?;
/// assert_eq!(one, BusinessKey::new(&("tenant-7".to_owned(), 42_i64))?);
/// assert_ne!(one, BusinessKey::new(&("tenant-7", "42"))?);
/// assert!(BusinessKey::new("").is_err());
/// # Ok::<(), sqs_once::key::KeyError>(())
/// ```
///
/// The derive macro of the same name makes a key from the payload's fields that are marked `#[key]`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BusinessKey {
    pub(super) encoded: Vec<u8>,
    /// Made once, because the item id and the token both contain it.
    digest: HexDigest,
}

impl BusinessKey {
    /// The maximum size of a key in bytes, including the length prefixes of its parts.
    pub const MAX_LEN: usize = 2048;

    /// Creates a key from one part, or from a tuple of several parts.
    ///
    /// # Errors
    /// [`KeyError::Missing`] for `None`, [`KeyError::Empty`] for empty bytes and for empty or blank text,
    /// [`KeyError::TooLong`] beyond [`BusinessKey::MAX_LEN`], [`KeyError::Extractor`] if `part` is an `Err`.
    pub fn new<K: KeyPart + ?Sized>(part: &K) -> Result<Self, KeyError> {
        let mut writer = KeyWriter::default();
        part.write(&mut writer)?;
        writer.finish().map(Self::of)
    }

    fn of(encoded: Vec<u8>) -> Self {
        let digest = HexDigest::of(&encoded);
        Self { encoded, digest }
    }

    pub(crate) fn digest(&self) -> HexDigest {
        self.digest
    }

    /// Returns the parts in a readable form. It contains a `:`, so it can't be mistaken for a digest.
    pub(crate) fn readable(&self) -> Option<String> {
        readable::readable(&self.encoded)
    }

    /// Parses a key from its readable form. The text must match that form exactly.
    pub(crate) fn from_readable(text: &str) -> Result<Self, KeyError> {
        let mut writer = KeyWriter::default();
        readable::write(text, &mut writer)?;
        let key = Self::of(writer.finish()?);
        let is_same = key.readable().is_some_and(|readable| readable == text);
        is_same.then_some(key).ok_or(KeyError::Malformed)
    }
}

/// Shows only the length: keys identify customers and orders, and must not be logged.
impl fmt::Debug for BusinessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BusinessKey({} bytes)", self.encoded.len())
    }
}
