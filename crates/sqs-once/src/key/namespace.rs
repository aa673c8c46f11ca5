//! Namespaces keep the keys of different consumers apart in one table.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::{BusinessKey, Fingerprint, HexDigest, KeySecret};

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
pub struct Namespace {
    name: Arc<str>,
    readable_keys: bool,
    secret: Option<KeySecret>,
}

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
        Ok(Self {
            name: name.into(),
            readable_keys: false,
            secret: None,
        })
    }

    /// Whether [`item_id`](Self::item_id) shows the key as it is instead of its hash. Default: off.
    ///
    /// See [`Consumer::readable_keys`](crate::Consumer::readable_keys) for what the id looks like then.
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

    /// Hashes keys with a secret. Default: none.
    ///
    /// For [`Consumer::also_read`](crate::Consumer::also_read), with the secret before or the next one.
    #[must_use]
    pub fn key_secret(mut self, secret: KeySecret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// The fingerprint in the form that is stored with this namespace's keys.
    pub(super) fn fingerprint(&self, fingerprint: Fingerprint) -> Fingerprint {
        match &self.secret {
            Some(secret) => secret.fingerprint(&fingerprint),
            None => fingerprint,
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Where the table keeps `key`.
    pub fn item_id(&self, key: &BusinessKey) -> ItemId {
        let readable = self.readable_keys.then(|| key.readable()).flatten();
        let id = readable
            .map(|key| [&*self.name, "#", &key].concat())
            .filter(|id| id.len() <= ItemId::MAX_READABLE_LEN)
            .unwrap_or_else(|| {
                let secret = self.secret.as_ref();
                let digest = secret.map_or_else(|| key.digest(), |it| key.secret_digest(it));
                [&*self.name, "#", digest.as_str()].concat()
            });
        ItemId(id.into())
    }
}

/// The name is not usable as a namespace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("namespace {0:?} must have 1 to {max} bytes, not only blanks, and no `#`", max = Namespace::MAX_LEN)]
pub struct InvalidNamespace(String);

/// The table's key of a business key's item: `{namespace}#{hex SHA-256 of the key}`, with a
/// [secret](Namespace::key_secret) its HMAC, with [`readable_keys`](Namespace::readable_keys) `{namespace}#{the key}`, and with another
/// [`KeyCodec`](super::KeyCodec) what that makes of the key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId(Arc<str>);

impl ItemId {
    /// The most bytes of an id that shows its key, which is what DynamoDB takes as a sort key. A longer
    /// one has the key's hash.
    pub const MAX_READABLE_LEN: usize = 1024;

    /// Reads an identifier as stored in the table.
    pub fn from_stored(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The identifier as stored in the table.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the first `#`, and twelve digits: the first of the key's hash if the id contains only a hash, else the
    /// first of the whole id's SHA-256. It is enough to find the item, and safe to log.
    pub fn short(&self) -> String {
        let hashed;
        let digest = match self.0.split_once('#') {
            Some((_, key)) if is_digest(key) => key,
            _ => {
                hashed = HexDigest::of(self.0.as_bytes());
                hashed.as_str()
            }
        };
        [self.namespace(), "#", &digest[..12]].concat()
    }

    /// The part before the first `#`.
    fn namespace(&self) -> &str {
        self.0
            .split_once('#')
            .map_or("", |(namespace, _)| namespace)
    }
}

fn is_digest(key: &str) -> bool {
    key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Shows what is safe to log, as [`ItemId::short`] does.
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
