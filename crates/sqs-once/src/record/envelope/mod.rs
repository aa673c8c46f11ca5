//! Envelopes, which the services between producer and queue put around the payload.

mod auto;
mod event_bridge;
mod event_bus;
mod fields;
mod needed;
mod opened;
mod s3;
mod sns;

use std::any::TypeId;

use super::{DecodeError, Message};

pub use auto::Auto;
pub use event_bridge::{EventBridge, EventBridgeMeta};
pub use event_bus::{EventBus, EventBusMeta};
pub(crate) use needed::Needed;
pub use opened::Opened;
pub use s3::{S3, S3Object};
pub use sns::{Sns, SnsMeta};

/// Takes the payload out of the envelope that a service put around it on the way to the queue.
///
/// | envelope | the payload is | metadata |
/// |---|---|---|
/// | [`Sns`] | the published message; with raw delivery, the body | [`SnsMeta`] |
/// | [`EventBridge`] | `detail` | [`EventBridgeMeta`] |
/// | [`EventBus`] | `Data` | [`EventBusMeta`] |
/// | [`S3`] | the one record of the notification | [`S3Object`] |
/// | a tuple of two to four, outermost first | the content of the last one | that of all |
/// | [`Auto`] | the content of the envelopes above that it recognises, also nested | that of all |
///
/// [`Handler::envelope`](crate::Handler::envelope) sets it. The consumer opens a message's envelope first: decoders,
/// key extractors and fingerprints see its content ([`Message::content`]). The envelope's own id and times differ
/// between copies of one event. A dead letter keeps the original body.
///
/// An envelope that can't be opened, or that panics, makes only its own message terminal.
///
/// You can write your own envelope:
///
/// ```
/// use sqs_once::body::{DecodeError, Envelope, Opened};
/// use sqs_once::extract::Message;
///
/// /// `tenant|payload`
/// struct Tenanted;
///
/// /// Handlers read it with `message.metadata::<Tenant>()`, or with a custom extractor.
/// struct Tenant(String);
///
/// impl Envelope for Tenanted {
///     fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
///         let Some((tenant, payload)) = content.split_once('|') else {
///             return Err(DecodeError::envelope("tenant", "it has no `|`"));
///         };
///         Ok(Opened::new(payload).with_metadata(Tenant(tenant.to_owned())))
///     }
/// }
///
/// let handler = sqs_once::Handler::json::<serde_json::Value>()
///     .key(sqs_once::key::MessageKey::json_pointer("/order/id"))
///     .call(async |order: serde_json::Value| {})
///     .envelope(Tenanted);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an envelope",
    label = "not an envelope",
    note = "`Sns`, `EventBridge`, `EventBus`, `S3` and `Auto` are, and tuples of them, outermost first: `(Sns, EventBridge)`"
)]
pub trait Envelope: Send + Sync + 'static {
    /// Opens the envelope in `content`: the message's body, or the content of an outer envelope.
    ///
    /// # Errors
    /// [`DecodeError`] if the content is not a valid envelope. The message is terminal, because a redelivery can't
    /// help.
    fn open(&self, content: &str, message: &Message) -> Result<Opened, DecodeError>;

    /// The types of its metadata. `None` if they are not known.
    #[doc(hidden)]
    fn metadata(&self) -> Option<Vec<TypeId>> {
        None
    }

    /// The type of the envelope itself.
    #[doc(hidden)]
    fn kind(&self) -> TypeId {
        TypeId::of::<Self>()
    }
}

macro_rules! tuples {
    ($(($($envelope:ident)*))*) => {$(
        /// Opens nested envelopes, outermost first.
        impl<$($envelope: Envelope),*> Envelope for ($($envelope,)*) {
            fn open(&self, content: &str, message: &Message) -> Result<Opened, DecodeError> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($envelope,)*) = self;
                let mut opened = Opened::untouched();
                $(
                    if opened.ignored.is_none() {
                        let inside = opened.content.as_deref().unwrap_or(content);
                        opened = $envelope.open(inside, message)?.inside(opened);
                    }
                )*
                Ok(opened)
            }

            fn metadata(&self) -> Option<Vec<TypeId>> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($envelope,)*) = self;
                let mut types = Vec::new();
                $(types.extend($envelope.metadata()?);)*
                Some(types)
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) }
