//! How a record's business key is taken from its payload or its metadata.

use crate::key::{BusinessKey, KeyError, KeyPart};

use super::Message;

/// Takes the business key from a record.
///
/// Every function from the payload to something that can be a key is one, and so are
/// [`MessageAttribute`] and [`MessageGroup`]. An error, or a panic, makes that record terminal: it
/// is never processed under another key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not extract a business key from `{T}`",
    label = "not a key extractor for this payload",
    note = "use a function of the payload, such as `|order: &OrderPlaced| order.order_id.clone()`",
    note = "the function must return a key: text, an integer, or a tuple of these; floats can't be keys"
)]
pub trait KeyExtractor<T>: Send + Sync + 'static {
    /// The key of the record whose payload and message are given.
    ///
    /// # Errors
    /// [`KeyError`] when there is no usable key.
    fn key(&self, payload: &T, message: &Message) -> Result<BusinessKey, KeyError>;
}

impl<T, K, F> KeyExtractor<T> for F
where
    F: Fn(&T) -> K + Send + Sync + 'static,
    K: KeyPart,
{
    fn key(&self, payload: &T, _: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::of(&self(payload))
    }
}

/// The key is a message attribute that the producer set.
///
/// ```
/// use sqs_once::MessageAttribute;
/// # #[derive(serde::Deserialize)] struct OrderPlaced {}
///
/// let consumer = sqs_once::consumer::<OrderPlaced>()
///     .key(MessageAttribute::new("order-id"))
///     .handler(async |_order: OrderPlaced| {});
/// ```
#[derive(Clone, Debug)]
pub struct MessageAttribute {
    name: String,
}

impl MessageAttribute {
    /// The attribute called `name`, by its text.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl<T> KeyExtractor<T> for MessageAttribute {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::of(&message.attribute(&self.name))
    }
}

/// The key is the message group: for queues where a group holds one event.
#[derive(Clone, Copy, Debug)]
pub struct MessageGroup;

impl<T> KeyExtractor<T> for MessageGroup {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::of(&message.group_id())
    }
}
