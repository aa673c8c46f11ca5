//! The secret for the hash of keys.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::ConfigError;

use super::{Fingerprint, HexDigest};

/// A secret for the hash of keys and fingerprints: HMAC-SHA-256 instead of SHA-256.
///
/// Some keys are easy to enumerate, such as order numbers. Without a secret, a reader of the table, the logs or the
/// dead-letter queue can guess these keys and compare hashes. [`Consumer::key_secret`](crate::Consumer::key_secret)
/// sets the secret.
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
    /// The minimum size of a secret in bytes. Use 32 random bytes.
    pub const MIN_LEN: usize = 16;

    /// Creates a secret from all these bytes.
    ///
    /// # Errors
    /// [`ConfigError`] if it has fewer than [`KeySecret::MIN_LEN`] bytes.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        Self::checked("the key secret", secret.as_ref())
    }

    /// Creates a secret from the contents of a file or of Secrets Manager, without a trailing line end.
    ///
    /// # Errors
    /// The same as [`KeySecret::new`].
    pub fn from_stored(secret: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        Self::from_setting("the key secret", secret.as_ref())
    }

    /// Creates a secret from the stored value of `setting`.
    pub(crate) fn from_setting(setting: &'static str, secret: &[u8]) -> Result<Self, ConfigError> {
        let secret = secret.strip_suffix(b"\n").unwrap_or(secret);
        let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
        Self::checked(setting, secret)
    }

    fn checked(setting: &'static str, secret: &[u8]) -> Result<Self, ConfigError> {
        if secret.len() < Self::MIN_LEN {
            let problem = format!("is a secret of {} bytes", secret.len());
            return Err(ConfigError::new(
                setting,
                problem,
                "16 random bytes or more",
            ));
        }
        Ok(Self(secret.into()))
    }

    /// Returns the fingerprint in the form that is stored with hashed keys. No key hashes the same bytes: the first nine
    /// bytes of a key are the kind and the length of a part.
    pub(super) fn fingerprint(&self, fingerprint: &Fingerprint) -> Fingerprint {
        fingerprint.hashed(|texts| self.hash(texts))
    }

    pub(super) fn hash(&self, texts: &[&[u8]]) -> HexDigest {
        let hash = Hmac::<Sha256>::new_from_slice(&self.0);
        let mut hash = hash.expect("HMAC takes keys of any length");
        for text in texts {
            hash.update(text);
        }
        HexDigest::from_bytes(hash.finalize().into_bytes())
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeySecret").finish_non_exhaustive()
    }
}
