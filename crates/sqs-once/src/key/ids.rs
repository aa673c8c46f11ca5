//! The settings of a handler's ids.

use std::fmt;

use super::{KeyCodec, KeySecret};

/// How the table names the keys of a handler, or of all handlers of a router.
///
/// An id starts with the namespace. Another form changes every id: the handler then recognises no earlier key, as after
/// renaming the namespace, unless it [also reads](Self::also_read) the other ids. The
/// [`IdempotencyToken`](crate::IdempotencyToken) of an event stays the same.
///
/// ```
/// use sqs_once::key::{Ids, KeySecret};
///
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
/// # #[sqs_once::handler(key = order.order_id, namespace = "payments")]
/// # async fn charge(order: OrderPlaced) {}
/// # let random = [7; 32];
/// let secret = KeySecret::new(random)?;
/// let handler = charge::handler().ids(Ids::secret(secret));
/// # Ok::<(), sqs_once::Error>(())
/// ```
#[derive(Clone)]
pub struct Ids(pub(crate) IdForm);

/// How an id is made of a key.
#[derive(Clone)]
pub(crate) enum IdForm {
    Hashed,
    Secret(KeySecret),
    Readable,
    Codec(KeyCodec),
}

/// The [`Ids`] of one handler, which may be another library's, and those under which its keys are looked up too.
#[derive(Clone)]
pub struct OwnIds {
    pub(crate) form: IdForm,
    /// `Some(None)` if the code turned the second lookup off.
    pub(crate) also_read: Option<Option<KeyCodec>>,
}

impl Ids {
    /// The table contains a hash of each key. This is the default. The secret that `SQS_ONCE_KEY_SECRET_ARN` names in AWS
    /// Secrets Manager (feature `secrets`) is used for the hash, if there is one.
    #[must_use]
    pub const fn hashed() -> Self {
        Self(IdForm::Hashed)
    }

    /// Keys and fingerprints are hashed with a secret: HMAC-SHA-256 instead of SHA-256.
    ///
    /// Readers of the table, the logs and the dead-letter queue can guess keys that are easy to enumerate. With a secret
    /// they can't check a guess. The [`IdempotencyToken`](crate::IdempotencyToken) is made without it.
    ///
    /// A new secret changes every id. With a secret, each key is therefore also looked up under the id without a secret,
    /// unless [`also_read`](Self::also_read), [`read_alone`](Self::read_alone) or `SQS_ONCE_ALSO_READ` is set. That costs a
    /// read unit for each new key. [The guide](crate::guide::schema_changes) shows how to introduce and rotate a secret so
    /// that no key runs twice.
    ///
    /// A handler whose effect commits with the completion of its key refuses to start with a secret, unless keys are
    /// looked up under their own ids only.
    #[must_use]
    pub const fn secret(secret: KeySecret) -> Self {
        Self(IdForm::Secret(secret))
    }

    /// The table contains the parts of each key, each with its kind, such as `payments#s:tenant-7,i:42`: `s` for text, `i`
    /// for an integer, `b` for a boolean, `x` for bytes in hexadecimal digits. `%`, `,` and everything that is not visible
    /// ASCII are escaped as in a URL. Different keys have different ids, as with hashes. A key is still hashed if its id
    /// would have more than 1024 bytes ([`ItemId::MAX_READABLE_LEN`](super::ItemId::MAX_READABLE_LEN)).
    ///
    /// Logs don't show keys: their `key` ends in the first digits of the id's SHA-256. Keys may contain personal data, which
    /// backups, exports and streams of the table then show too. A secret in `SQS_ONCE_KEY_SECRET_ARN` fails at
    /// [`init`](crate::Consumer::init).
    #[must_use]
    pub const fn readable() -> Self {
        Self(IdForm::Readable)
    }

    /// Looks for each key under the ids of a second codec or namespace too: see [`OwnIds::also_read`].
    #[must_use]
    pub fn also_read(self, other: impl Into<KeyCodec>) -> OwnIds {
        OwnIds::from(self).also_read(other)
    }

    /// Looks for keys under their own ids only. This is the default, except with a [secret](Self::secret).
    #[must_use]
    pub fn read_alone(self) -> OwnIds {
        OwnIds::from(self).read_alone()
    }
}

impl OwnIds {
    /// Looks for each key under the ids of a second codec or namespace too, earlier or future. Default: none.
    ///
    /// A key is claimed under its own id first, and then looked up under the other one. A key that is completed there is a
    /// duplicate here, as long as that item exists. A key that is in progress there counts as in progress here. The lookup
    /// costs a read unit for every new key.
    ///
    /// Change the codec or namespace in two deployments, so that no key runs twice. Complete each before the next: first the
    /// old codec that also reads the new one, then the new codec that also reads the old one. Remove this setting after the
    /// retention. Without the first deployment, messages that both versions receive during the second may run twice. The
    /// [`IdempotencyToken`](crate::IdempotencyToken) of an event stays the same under another codec, but not in another
    /// namespace.
    ///
    /// No other handler may use or read these ids: each would acknowledge the other's messages. Two handlers of one process
    /// refuse to start with it. So does a handler that returns [`Writes`](crate::Writes) or takes a transaction, and an
    /// [`Idempotency`](crate::Idempotency) refuses such work. With [`RecordAfter`](crate::handler::RecordAfter) two
    /// concurrent versions may both run a key, as concurrent deliveries always may in that mode.
    ///
    /// ```
    /// use sqs_once::key::{Ids, Namespace};
    ///
    /// let ids = Ids::hashed().also_read(Namespace::new("billing")?);
    /// # Ok::<(), sqs_once::Error>(())
    /// ```
    #[must_use]
    pub fn also_read(mut self, other: impl Into<KeyCodec>) -> Self {
        self.also_read = Some(Some(other.into()));
        self
    }

    /// Looks for keys under these ids only.
    #[must_use]
    pub fn read_alone(mut self) -> Self {
        self.also_read = Some(None);
        self
    }
}

impl From<Ids> for OwnIds {
    fn from(ids: Ids) -> Self {
        Self {
            form: ids.0,
            also_read: None,
        }
    }
}

/// The ids of another library, such as Powertools for AWS Lambda: this handler shares its keys with functions that use it on
/// the same table. The namespace then affects only the token. No fingerprint is compared or stored: a message with another
/// payload is a duplicate. A message whose key has no id in the codec is terminal.
impl From<KeyCodec> for OwnIds {
    fn from(codec: KeyCodec) -> Self {
        Self {
            form: IdForm::Codec(codec),
            also_read: None,
        }
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").finish_non_exhaustive()
    }
}

impl fmt::Debug for OwnIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnIds").finish_non_exhaustive()
    }
}
