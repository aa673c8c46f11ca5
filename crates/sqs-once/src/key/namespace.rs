//! Namespaces, which separate the keys of different handlers in one table.

use std::fmt;
use std::sync::Arc;

use crate::error::ConfigError;

use super::{BusinessKey, Fingerprint, HexDigest, KeySecret};

/// A name that separates the keys of handlers that share a table. The same key in two namespaces is two events.
///
/// ```
/// use sqs_once::key::Namespace;
///
/// assert_eq!(Namespace::new("payments")?.as_str(), "payments");
/// assert!(Namespace::new("pay#ments").is_err());
/// # Ok::<(), sqs_once::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    name: Arc<str>,
    readable_keys: bool,
    secret: Option<KeySecret>,
}

const NAMESPACE_FORM: &str = "1 to 255 bytes, not only blanks, and no `#`";

impl Namespace {
    /// The maximum size of a namespace in bytes.
    pub const MAX_LEN: usize = 255;

    /// Creates a namespace from a valid name.
    ///
    /// # Errors
    /// [`ConfigError`] if the name is empty or blank, has more than [`Namespace::MAX_LEN`] bytes, or contains a
    /// `#`. In the table, `#` separates the namespace from the key.
    pub fn new(name: impl AsRef<str>) -> Result<Self, ConfigError> {
        let name = name.as_ref();
        if name.trim().is_empty() || name.len() > Self::MAX_LEN || name.contains('#') {
            return Err(ConfigError::invalid(
                "the namespace",
                format!("is {name:?}"),
                NAMESPACE_FORM,
            ));
        }
        Ok(Self {
            name: name.into(),
            readable_keys: false,
            secret: None,
        })
    }

    /// Sets whether [`item_id`](Self::item_id) contains the key itself instead of its hash. Default: off.
    ///
    /// See [`Ids::readable`](super::Ids::readable) for the form of these ids.
    ///
    /// ```
    /// use sqs_once::{BusinessKey, key::Namespace};
    ///
    /// let namespace = Namespace::new("payments")?.readable_keys(true);
    /// let key = BusinessKey::new(&("tenant-7", 42))?;
    /// assert_eq!(namespace.item_id(&key).as_str(), "payments#s:tenant-7,i:42");
    /// # Ok::<(), sqs_once::Error>(())
    /// ```
    #[must_use]
    pub fn readable_keys(mut self, readable: bool) -> Self {
        self.readable_keys = readable;
        self
    }

    /// Sets a secret for the hash of keys. Default: none.
    ///
    /// Use it in [`Ids::also_read`](super::Ids::also_read), with the previous or the next secret.
    #[must_use]
    pub fn key_secret(mut self, secret: KeySecret) -> Self {
        self.secret = Some(secret);
        self
    }

    pub(crate) fn secret(&self) -> Option<&KeySecret> {
        self.secret.as_ref()
    }

    /// Returns the fingerprint in the form that is stored with this namespace's keys.
    pub(super) fn fingerprint(&self, fingerprint: Fingerprint) -> Fingerprint {
        match &self.secret {
            Some(secret) => secret.fingerprint(&fingerprint),
            None => fingerprint,
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the item id of `key`.
    pub fn item_id(&self, key: &BusinessKey) -> ItemId {
        let readable = self.readable_keys.then(|| key.readable()).flatten();
        let id = readable
            .map(|key| [&*self.name, "#", &key].concat())
            .filter(|id| id.len() <= ItemId::MAX_READABLE_LEN)
            .unwrap_or_else(|| {
                let digest = match &self.secret {
                    Some(secret) => secret.hash(&[&key.encoded]),
                    None => key.digest(),
                };
                [&*self.name, "#", digest.as_str()].concat()
            });
        ItemId(id.into())
    }
}

/// The id of a business key's item in the table: `{namespace}#{hex SHA-256 of the key}`.
///
/// With a [secret](Namespace::key_secret) the hash is an HMAC-SHA-256. With [`readable_keys`](Namespace::readable_keys)
/// the id is `{namespace}#{the key}`. Another [`KeyCodec`](super::KeyCodec) creates ids in its own form.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId(Arc<str>);

impl ItemId {
    /// The maximum size in bytes of an id that shows its key: DynamoDB's limit for sort keys. If the id would be
    /// longer, it contains the key's hash.
    pub const MAX_READABLE_LEN: usize = 1024;

    /// Reads an id as stored in the table.
    pub fn from_stored(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the id as stored in the table.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a short form that is safe to log and enough to find the item: the part before the first `#`, and twelve
    /// digits. They are the first digits of the key's hash if the id contains only a hash, or else of the whole id's
    /// SHA-256.
    pub fn short(&self) -> String {
        let (namespace, key) = self.0.split_once('#').unwrap_or_default();
        let hashed;
        let digest = match is_digest(key) {
            true => key,
            false => {
                hashed = HexDigest::of(self.0.as_bytes());
                hashed.as_str()
            }
        };
        [namespace, "#", &digest[..12]].concat()
    }
}

fn is_digest(key: &str) -> bool {
    // Checks every byte without an early exit, so that the compiler can vectorize the loop.
    let are_digits = |all, byte: u8| all & byte.is_ascii_hexdigit();
    key.len() == 64 && key.bytes().fold(true, are_digits)
}

/// Shows [`ItemId::short`], which is safe to log.
impl fmt::Debug for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ItemId({})", self.short())
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
