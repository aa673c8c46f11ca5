//! The business key: what makes two messages the same event, and where it comes from.

mod codec;
mod envelope_ids;
mod extractor;
mod fingerprint;
mod hex;
#[cfg(feature = "jmespath")]
mod jmes_path;
mod json_pointer;
mod namespace;
#[cfg(feature = "nfc")]
mod nfc;
mod part;
mod parts;
#[cfg(feature = "powertools")]
mod powertools;
mod readable;
mod secret;

use std::fmt;

use thiserror::Error;

pub use codec::KeyCodec;
pub use envelope_ids::{EventBridgeId, S3EventId, SnsMessageId};
pub use extractor::{
    KeyExtractor, MessageAttribute, MessageGroup, MessageId, ProducerKey, SystemAttribute,
};
pub use fingerprint::Fingerprint;
pub(crate) use hex::{HexDigest, hex};
#[cfg(feature = "jmespath")]
pub use jmes_path::JmesPath;
pub use json_pointer::JsonPointer;
pub use namespace::{InvalidNamespace, ItemId, Namespace};
#[cfg(feature = "nfc")]
pub use nfc::nfc;
pub use part::{KeyPart, KeyWriter};
pub use secret::KeySecret;

/// The identity of a business event, such as an order number: two messages with the same key are
/// the same event, and its effect happens once.
///
/// A key has one or more parts. Each is written with its kind and its length, so that no two
/// different lists of parts share a key: `("a", "bc")` and `("ab", "c")` differ, and so do `1` and
/// `"1"`. Integers are equal by value, whatever their width.
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
/// The derive of the same name makes a payload its own key, by its fields marked `#[key]`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BusinessKey {
    encoded: Vec<u8>,
}

impl BusinessKey {
    /// The most bytes a key may have, its parts and their length prefixes together.
    pub const MAX_LEN: usize = 2048;

    /// Makes a key of one part, or of several in a tuple.
    ///
    /// # Errors
    /// [`KeyError::Missing`] for `None`, [`KeyError::Empty`] for text or bytes with nothing in them
    /// (blank text included), [`KeyError::TooLong`] beyond [`BusinessKey::MAX_LEN`],
    /// [`KeyError::Extractor`] when `part` is an `Err`.
    pub fn new<K: KeyPart + ?Sized>(part: &K) -> Result<Self, KeyError> {
        let mut writer = KeyWriter::default();
        part.write(&mut writer)?;
        let encoded = writer.finish()?;
        Ok(Self { encoded })
    }

    /// Hex SHA-256 of the parts.
    pub(crate) fn digest(&self) -> HexDigest {
        HexDigest::of(&self.encoded)
    }

    /// Hex HMAC-SHA-256 of the parts.
    fn secret_digest(&self, secret: &KeySecret) -> HexDigest {
        secret.digest(&self.encoded)
    }

    /// The parts in a readable form. It contains a `:`, so it can't be mistaken for a digest.
    pub(crate) fn readable(&self) -> Option<String> {
        readable::readable(&self.encoded)
    }

    /// The key that has this readable form, letter by letter.
    pub(crate) fn from_readable(text: &str) -> Result<Self, KeyError> {
        let mut writer = KeyWriter::default();
        readable::write(text, &mut writer)?;
        let key = Self {
            encoded: writer.finish()?,
        };
        let is_same = key.readable().is_some_and(|readable| readable == text);
        is_same.then_some(key).ok_or(KeyError::Malformed)
    }
}

/// Shows the length only: keys name customers and orders, and don't belong in logs.
impl fmt::Debug for BusinessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BusinessKey({} bytes)", self.encoded.len())
    }
}

/// Why a record has no usable business key. Such a record is never processed under a shared or an
/// empty key: it fails alone, and its message never reaches the store.
#[derive(Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The field that holds the key is absent or null.
    #[error("the business key is missing")]
    Missing,
    /// The key, or one part of a composed key, is empty or blank.
    #[error("the business key is empty: every part of it needs a value")]
    Empty,
    /// The key is longer than [`BusinessKey::MAX_LEN`].
    #[error("the business key has {len} bytes, at most {max} are allowed", max = BusinessKey::MAX_LEN)]
    TooLong {
        /// The length found, in bytes.
        len: usize,
    },
    /// The value found is of a kind that can't be a key.
    #[error("the business key is {found}: only text, an integer or a boolean can be one")]
    WrongType {
        /// What was found, such as `an object`.
        found: &'static str,
    },
    /// The [codec](KeyCodec) has no id for such a key.
    #[error("the business key holds {found}, for which {codec} has no id of its own")]
    Unwritable {
        /// What was found, such as `bytes`.
        found: &'static str,
        /// Whose ids they are.
        codec: &'static str,
    },
    /// The text that the producer wrote is not a key.
    #[error(
        "the business key is not in the form in which `Outgoing` writes it, such as `s:tenant-7,i:42`"
    )]
    Malformed,
    /// The user's extractor returned an error or panicked. What it said is not shown, since it may
    /// hold the key, and this is logged.
    #[error("the key extractor failed")]
    Extractor(String),
}

/// Shows nothing of what an extractor said: errors are logged in this form too, by `lambda_runtime` for instance.
impl fmt::Debug for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("Missing"),
            Self::Empty => f.write_str("Empty"),
            Self::Malformed => f.write_str("Malformed"),
            Self::TooLong { len } => f.debug_struct("TooLong").field("len", len).finish(),
            Self::WrongType { found } => f.debug_struct("WrongType").field("found", found).finish(),
            Self::Unwritable { found, codec } => f
                .debug_struct("Unwritable")
                .field("found", found)
                .field("codec", codec)
                .finish(),
            Self::Extractor(_) => f.debug_tuple("Extractor").finish_non_exhaustive(),
        }
    }
}
