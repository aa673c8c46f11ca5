//! Namespaces keep the keys of different consumers apart in one table.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::BusinessKey;

/// Separates the keys of consumers that share a table: the same key in two namespaces is two events.
///
/// ```
/// use sqs_once::key::Namespace;
///
/// assert_eq!(Namespace::new("payments")?.as_str(), "payments");
/// assert!(Namespace::new("pay#ments").is_err());
/// # Ok::<(), sqs_once::key::InvalidNamespace>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The most bytes a namespace may have.
    pub const MAX_LEN: usize = 255;

    /// Checks and keeps a name.
    ///
    /// # Errors
    /// [`InvalidNamespace`] when it is empty, has more than [`Namespace::MAX_LEN`] bytes, or holds a
    /// `#`, which separates it from the key in the table.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidNamespace> {
        let name = name.as_ref();
        if name.trim().is_empty() || name.len() > Self::MAX_LEN || name.contains('#') {
            return Err(InvalidNamespace(name.to_owned()));
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where the table keeps `key`.
    pub fn item_id(&self, key: &BusinessKey) -> ItemId {
        ItemId(format!("{}#{}", self.0, key.digest()).into())
    }
}

/// The name is not usable as a namespace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("namespace {0:?} must have 1 to {max} bytes, not only blanks, and no `#`", max = Namespace::MAX_LEN)]
pub struct InvalidNamespace(String);

/// The partition key of a business key's item: `{namespace}#{hex SHA-256 of the key}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId(Arc<str>);

impl ItemId {
    /// Takes an identifier as it stands in the table.
    pub fn from_stored(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The identifier as it stands in the table.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace and the first twelve digits of the hash: enough to find the item, and safe to log.
    pub fn short(&self) -> &str {
        let hash = self.0.rfind('#').map_or(0, |at| at + 1);
        self.0.get(..hash + 12).unwrap_or(&self.0)
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
