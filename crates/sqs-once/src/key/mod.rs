//! Business keys, which identify events, and their sources.

pub(crate) mod business_key;
mod codec;
mod extractor;
mod fingerprint;
mod hex;
mod ids;
#[cfg(feature = "jmespath")]
mod jmes_path;
#[cfg_attr(
    not(feature = "unstable"),
    allow(unreachable_pub, reason = "the tools reach it through `unstable`")
)]
pub(crate) mod json_pointer;
mod message_key;
mod namespace;
mod part;
#[cfg(feature = "powertools")]
mod powertools;
mod readable;
mod secret;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

pub(crate) use business_key::BusinessKey;
pub use codec::KeyCodec;
pub use extractor::KeyExtractor;
pub use fingerprint::Fingerprint;
pub(crate) use fingerprint::Payloads;
pub(crate) use hex::{HexDigest, hex};
pub(crate) use ids::IdForm;
pub use ids::{Ids, OwnIds};
pub(crate) use json_pointer::JsonPointer;
pub use message_key::MessageKey;
#[cfg(any(feature = "s3", feature = "sqs"))]
pub(crate) use message_key::PRODUCER_ATTRIBUTE;
pub use namespace::{ItemId, Namespace};
pub use part::{KeyPart, KeyWriter};
pub use secret::KeySecret;

/// The reason why a message has no usable business key. The message is never processed under a shared or an empty key. It
/// fails alone and never reaches the store.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The field that holds the key is absent or null.
    #[error("the business key is missing")]
    Missing,
    /// The message has no attribute with this name.
    #[error("the business key is missing: the message has no attribute `{name}`")]
    MissingAttribute {
        /// The attribute's name.
        name: String,
    },
    /// The key, or a part of it, is empty or blank.
    #[error("the business key is empty: every part of it needs a value")]
    Empty,
    /// The key is longer than [`BusinessKey::MAX_LEN`].
    #[error("the business key has {len} bytes, at most {max} are allowed", max = BusinessKey::MAX_LEN)]
    TooLong {
        /// The length found, in bytes.
        len: usize,
    },
    /// The value found has a type that can't be a key.
    #[error("the business key is {found}: only text, an integer or a boolean can be one")]
    WrongType {
        /// What was found, such as `an object`.
        found: &'static str,
    },
    /// The [codec](KeyCodec) has no id for this key.
    #[error("the business key contains {found}, for which {codec} has no unambiguous id")]
    Unwritable {
        /// What was found, such as `bytes`.
        found: &'static str,
        /// The library whose ids the codec writes.
        codec: &'static str,
    },
    /// The text that the producer wrote is not a key.
    #[error(
        "the business key is not in the form in which `Outgoing` writes it, such as `s:tenant-7,i:42`"
    )]
    Malformed,
    /// The user's extractor returned an error or panicked. The message omits the extractor's own text, because it may
    /// contain the key.
    #[error("the key extractor failed")]
    Extractor(Arc<dyn StdError + Send + Sync>),
}

impl KeyError {
    /// Returns whether the message has no key, so that [`MissingKey`](crate::policy::MissingKey) applies.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing | Self::MissingAttribute { .. })
    }

    /// Creates the error of an extractor that failed. The message is terminal, unless the error's
    /// [type](trait@crate::handler::ErrorDisposition) chooses otherwise.
    pub fn extractor(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Extractor(error.into().into())
    }
}

impl PartialEq for KeyError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Extractor(one), Self::Extractor(other)) => one.to_string() == other.to_string(),
            // It has all fields of the others.
            _ => format!("{self:?}") == format!("{other:?}"),
        }
    }
}

impl Eq for KeyError {}

/// Omits the text of an extractor's error. Errors are also logged in their `Debug` form, for example by
/// `lambda_runtime`.
impl fmt::Debug for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("Missing"),
            Self::MissingAttribute { name } => f
                .debug_struct("MissingAttribute")
                .field("name", name)
                .finish(),
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
