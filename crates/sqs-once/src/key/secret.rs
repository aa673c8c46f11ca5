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
/// dead-letter queue can guess these keys and compare hashes. [`Ids::secret`](super::Ids::secret)
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

    /// Creates a secret from all these bytes, exactly as [`from_stored`](Self::from_stored) does, or refuses them.
    ///
    /// Bytes that are valid UTF-8 count as text, also if they are random. Of random secrets with 32 bytes, practically
    /// none is valid UTF-8.
    ///
    /// # Errors
    /// [`ConfigError`] if it is text that ends in a line end, or has fewer than [`KeySecret::MIN_LEN`] bytes.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        let secret = secret.as_ref();
        if without_line_ends(secret) != secret {
            return Err(ConfigError::invalid(
                "the key secret",
                "is text that ends in a line end",
                "`KeySecret::from_stored`, which removes it, or the text without it",
            ));
        }
        Self::checked("the key secret", secret)
    }

    /// Creates a secret from the contents of a file or of Secrets Manager: text without its trailing line ends, or all
    /// bytes if they are not valid UTF-8. `SQS_ONCE_KEY_SECRET_ARN` and `--key-secret-file` do the same.
    ///
    /// # Errors
    /// [`ConfigError`] if it has fewer than [`KeySecret::MIN_LEN`] bytes.
    pub fn from_stored(secret: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        Self::from_setting("the key secret", secret.as_ref())
    }

    /// Creates a secret from the stored value of `setting`.
    pub(crate) fn from_setting(setting: &'static str, secret: &[u8]) -> Result<Self, ConfigError> {
        Self::checked(setting, without_line_ends(secret))
    }

    fn checked(setting: &'static str, secret: &[u8]) -> Result<Self, ConfigError> {
        if secret.len() < Self::MIN_LEN {
            let problem = format!("is a secret of {} bytes", secret.len());
            return Err(ConfigError::invalid(
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

    /// Returns whether two texts are equal. The time that it takes does not tell how far they are.
    #[cfg(feature = "s3")]
    pub(crate) fn equal(&self, texts: [&str; 2]) -> bool {
        let [one, other] = texts.map(|text| self.hash(&[text.as_bytes()]));
        one.as_str() == other.as_str()
    }

    pub(crate) fn hash(&self, texts: &[&[u8]]) -> HexDigest {
        let hash = Hmac::<Sha256>::new_from_slice(&self.0);
        let mut hash = hash.expect("HMAC takes keys of any length");
        for text in texts {
            hash.update(text);
        }
        HexDigest::from_bytes(hash.finalize().into_bytes())
    }
}

/// Returns text without its trailing line ends, and other bytes as they are: a random byte may look like a line end.
fn without_line_ends(secret: &[u8]) -> &[u8] {
    match std::str::from_utf8(secret) {
        Ok(text) => text.trim_end_matches(['\r', '\n']).as_bytes(),
        Err(_) => secret,
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeySecret").finish_non_exhaustive()
    }
}
