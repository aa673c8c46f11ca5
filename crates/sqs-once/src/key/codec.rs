//! Codecs, which turn a key into the id of its item.

use std::fmt;

use crate::error::ConfigError;

use super::{BusinessKey, Fingerprint, ItemId, KeyError, Namespace};

#[cfg(feature = "powertools")]
use super::powertools::Powertools;

/// The format of item ids: this library's own, or another library's, to share its table.
///
/// A [`Namespace`] is the codec of this library's own ids, and the default of every handler. The ids of Powertools for
/// AWS Lambda (feature `powertools`) are `{prefix}#{MD5 of the key}`:
///
/// | | prefix, unless it was set | the key is hashed as | the hash is written as |
/// |---|---|---|---|
/// | `powertools_python` | `{function}.{module}.{qualified name}` | JSON, with spaces and in ASCII | hexadecimal digits |
/// | `powertools_typescript` | `{function}` | JSON, without spaces | base64 |
/// | `powertools_java` | `{function}.{method}` | its text; several parts as JSON | hexadecimal digits |
/// | `powertools_dotnet` | `{function}.{method}` | its text; several parts as JSON | hexadecimal digits |
///
/// A key of one part is the value that their JMESPath expression selects, such as `order_id`. A key of several parts is
/// a multiselect list in the same order, such as `[tenant, order_id]`. The guide `docs/migrate-powertools.md` in the
/// repository lists the keys that are not supported.
///
/// ```
/// use sqs_once::BusinessKey;
/// use sqs_once::key::{KeyCodec, Namespace};
///
/// let key = BusinessKey::new("o-1001")?;
/// let own = KeyCodec::from(Namespace::new("payments")?.readable_keys(true));
/// assert_eq!(own.item_id(&key)?.as_str(), "payments#s:o-1001");
/// # #[cfg(feature = "powertools")] {
/// let python = KeyCodec::powertools_python("orders.app.process_order");
/// assert_eq!(
///     python.item_id(&key)?.as_str(),
///     "orders.app.process_order#caf6f8c0c56053333aecfd7a240e0293",
/// );
/// # }
/// # Ok::<(), sqs_once::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KeyCodec(Form);

#[derive(Clone, PartialEq, Eq)]
enum Form {
    Own(Namespace),
    #[cfg(feature = "powertools")]
    Powertools(Powertools),
}

impl KeyCodec {
    /// Returns the item id of `key`.
    ///
    /// # Errors
    /// [`KeyError::Unwritable`] if the other library has no id for the key, or no unambiguous one. This library's own
    /// ids never fail.
    pub fn item_id(&self, key: &BusinessKey) -> Result<ItemId, KeyError> {
        match &self.0 {
            Form::Own(namespace) => Ok(namespace.item_id(key)),
            #[cfg(feature = "powertools")]
            Form::Powertools(powertools) => powertools.item_id(key),
        }
    }

    /// Returns the part of the ids before the `#`. Codecs with different ones share no id.
    pub(crate) fn prefix(&self) -> &str {
        match &self.0 {
            Form::Own(namespace) => namespace.as_str(),
            #[cfg(feature = "powertools")]
            Form::Powertools(powertools) => powertools.prefix(),
        }
    }

    /// Returns whether the items have fingerprints that this library can compare.
    pub(crate) fn has_fingerprints(&self) -> bool {
        matches!(self.0, Form::Own(_))
    }

    /// Returns the fingerprint in the form that is stored with the keys, or `None` if the codec stores no fingerprints.
    pub(crate) fn fingerprint(&self, fingerprint: Fingerprint) -> Option<Fingerprint> {
        match &self.0 {
            Form::Own(namespace) => Some(namespace.fingerprint(fingerprint)),
            #[cfg(feature = "powertools")]
            Form::Powertools(_) => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match &self.0 {
            Form::Own(_) => Ok(()),
            #[cfg(feature = "powertools")]
            Form::Powertools(powertools) => powertools.check(),
        }
    }

    #[cfg(feature = "powertools")]
    pub(super) fn powertools(form: Powertools) -> Self {
        Self(Form::Powertools(form))
    }
}

impl From<Namespace> for KeyCodec {
    fn from(namespace: Namespace) -> Self {
        Self(Form::Own(namespace))
    }
}

impl fmt::Debug for KeyCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Own(namespace) => namespace.fmt(f),
            #[cfg(feature = "powertools")]
            Form::Powertools(powertools) => powertools.fmt(f),
        }
    }
}
