//! The secret of the keys' hash.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::ConfigError;

use super::{Fingerprint, HexDigest};

/// A secret for the hash of keys and fingerprints: HMAC-SHA-256 instead of SHA-256.
///
/// Without a secret, a reader of the table, the logs or the dead-letter queue can guess keys that are easy to enumerate, such as
/// order numbers, and compare hashes. [`Consumer::key_secret`](crate::Consumer::key_secret) sets it.
///
/// ```
/// use sqs_once::BusinessKey;
/// use sqs_once::key::{KeySecret, Namespace};
///
/// # let random = [7; 32];
/// let secret = KeySecret::new(random)?;
/// let namespace = Namespace::new("payments")?;
/// let key = BusinessKey::new("o-1001")?;
/// assert_ne!(namespace.item_id(&key), namespace.clone().key_secret(secret).item_id(&key));
/// # Ok::<(), sqs_once::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeySecret(Arc<[u8]>);

impl KeySecret {
    /// The fewest bytes that a secret may have. Take 32 random ones.
    pub const MIN_LEN: usize = 16;

    /// Keeps a secret, every byte of it.
    ///
    /// # Errors
    /// [`ConfigError`] when it has fewer than [`KeySecret::MIN_LEN`] bytes.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        Self::checked("the key secret", secret.as_ref())
    }

    /// Keeps a secret that is stored in a file or in Secrets Manager, without the line end that a file may add.
    ///
    /// # Errors
    /// As [`KeySecret::new`].
    pub fn from_stored(secret: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        Self::from_setting("the key secret", secret.as_ref())
    }

    /// Keeps the stored secret that `setting` names.
    pub(crate) fn from_setting(setting: &'static str, secret: &[u8]) -> Result<Self, ConfigError> {
        let secret = secret.strip_suffix(b"\n").unwrap_or(secret);
        let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
        Self::checked(setting, secret)
    }

    fn checked(setting: &'static str, secret: &[u8]) -> Result<Self, ConfigError> {
        if secret.len() < Self::MIN_LEN {
            return Err(ConfigError::new(
                setting,
                format!("is a secret of {} bytes", secret.len()),
                "16 random bytes or more",
            ));
        }
        Ok(Self(secret.into()))
    }

    /// The hash of a key's parts.
    pub(super) fn digest(&self, encoded: &[u8]) -> HexDigest {
        self.hash(&[encoded])
    }

    /// The hash of a fingerprint. No key is encoded like it: its first nine bytes would be the kind and the length of a part.
    pub(super) fn fingerprint(&self, fingerprint: &Fingerprint) -> Fingerprint {
        let hash = self.hash(&[b"sqs-once fingerprint ", fingerprint.as_str().as_bytes()]);
        Fingerprint::from_stored(hash.as_str())
    }

    fn hash(&self, texts: &[&[u8]]) -> HexDigest {
        let hash = Hmac::<Sha256>::new_from_slice(&self.0);
        let mut hash = hash.expect("HMAC takes keys of any length");
        for text in texts {
            hash.update(text);
        }
        HexDigest::from_bytes(hash.finalize().into_bytes())
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeySecret").finish_non_exhaustive()
    }
}
