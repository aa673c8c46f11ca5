//! Extractors, which take a message's business key from its payload or metadata.

use crate::error::ConfigError;
use crate::record::{Message, Needed};

use super::{BusinessKey, KeyError, KeyPart};

/// Extracts the business key from a message.
///
/// | extractor | the key is |
/// |---|---|
/// | a function of the payload | its result, any [`KeyPart`](crate::key::KeyPart) |
/// | [`MessageKey`](crate::key::MessageKey) | an attribute of the message, the key that its producer sent, or an id in its envelope |
/// | [`MessageKey::json_pointer`](crate::key::MessageKey::json_pointer) | a value in the body's JSON, for any payload type |
/// | `MessageKey::jmespath` (feature `jmespath`) | the result of a JMESPath expression over the body's JSON |
/// | a tuple of two to six extractors | the keys of all of them together |
///
/// An error or a panic makes the message terminal; it is never processed under another key.
/// [`Handler::missing_key`](crate::Handler::missing_key) chooses what happens to a message without a key.
///
/// ```
/// use sqs_once::key::MessageKey;
///
/// let handler = sqs_once::Handler::json::<serde_json::Value>()
///     .key((MessageKey::attribute("tenant"), MessageKey::json_pointer("/order/id")))
///     .call(async |_order: serde_json::Value| {});
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not extract a business key from `{T}`",
    label = "not a key extractor for this payload",
    note = "use a function of the payload, such as `|order: &OrderPlaced| order.order_id.clone()`",
    note = "the function must return a key: text, an integer, or a tuple of these; floats can't be keys"
)]
pub trait KeyExtractor<T>: Send + Sync + 'static {
    /// Returns the key of the message with this payload.
    ///
    /// # Errors
    /// [`KeyError`] if the message has no usable key.
    fn key(&self, payload: &T, message: &Message) -> Result<BusinessKey, KeyError>;

    /// Checks the extractor's settings. [`Consumer::init`](crate::Consumer::init) calls it and returns its error, so
    /// that the function does not start. Default: accepts them.
    ///
    /// # Errors
    /// [`ConfigError`] if the extractor can't find a key in any message.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// The metadata without which no message has a key.
    #[doc(hidden)]
    fn needs(&self) -> Vec<Needed> {
        Vec::new()
    }
}

impl<T, K, F> KeyExtractor<T> for F
where
    F: Fn(&T) -> K + Send + Sync + 'static,
    K: KeyPart,
{
    fn key(&self, payload: &T, _: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(&self(payload))
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        /// Combines the keys of all extractors. The message needs every one of them.
        impl<T, $($part: KeyExtractor<T>),*> KeyExtractor<T> for ($($part,)*) {
            fn key(&self, payload: &T, message: &Message) -> Result<BusinessKey, KeyError> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($part,)*) = self;
                BusinessKey::new(&($($part.key(payload, message)?,)*))
            }

            fn check(&self) -> Result<(), ConfigError> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($part,)*) = self;
                $($part.check()?;)*
                Ok(())
            }

            fn needs(&self) -> Vec<Needed> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($part,)*) = self;
                [$($part.needs()),*].concat()
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }
