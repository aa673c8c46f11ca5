//! Envelopes: what the services between producer and queue wrap around the payload.

mod auto;
mod event_bridge;
mod fields;
mod opened;
mod s3;
mod sns;

use thiserror::Error;

use super::Message;

pub use auto::Auto;
pub use event_bridge::{EventBridge, EventBridgeMeta};
pub use opened::Opened;
pub use s3::{S3, S3Object};
pub use sns::{Sns, SnsMeta};

/// Takes the payload out of what a service has wrapped around it on the way to the queue.
///
/// | envelope | the payload is | metadata |
/// |---|---|---|
/// | [`Sns`] | the published message; with raw delivery, the body | [`SnsMeta`] |
/// | [`EventBridge`] | `detail` | [`EventBridgeMeta`] |
/// | [`S3`] | the one record of the notification | [`S3Object`] |
/// | a tuple of two to four | what the last of them holds: outermost first | theirs |
/// | [`Auto`] | what those above hold that it recognises, however they are nested | theirs |
///
/// [`Consumer::envelope`](crate::Consumer::envelope) sets it. A message's envelope is opened when the
/// message is taken up, before anything else looks at it: decoders, key extractors and fingerprints see
/// what is inside ([`Message::content`]), because an envelope's own id and times differ from one copy of
/// an event to the next. A dead letter keeps the body as it came.
///
/// One that can't be opened makes its record terminal, and no other; so does one that panics.
///
/// An envelope of your own:
///
/// ```
/// use sqs_once::body::{Envelope, EnvelopeError, Opened};
/// use sqs_once::extract::Message;
///
/// /// `tenant|payload`
/// struct Tenanted;
///
/// /// Which handlers read by `message.metadata::<Tenant>()`, or in an extractor of their own.
/// struct Tenant(String);
///
/// impl Envelope for Tenanted {
///     fn open(&self, content: &str, _: &Message) -> Result<Opened, EnvelopeError> {
///         let Some((tenant, payload)) = content.split_once('|') else {
///             return Err(EnvelopeError::new("tenant", "it has no `|`"));
///         };
///         Ok(Opened::new(payload).with_metadata(Tenant(tenant.to_owned())))
///     }
/// }
///
/// let consumer = sqs_once::consumer::<serde_json::Value>()
///     .envelope(Tenanted)
///     .key(sqs_once::key::JsonPointer::new("/order/id"))
///     .handler(async |order: serde_json::Value| {});
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an envelope",
    label = "not an envelope",
    note = "`Sns`, `EventBridge`, `S3` and `Auto` are, and tuples of them, outermost first: `(Sns, EventBridge)`"
)]
pub trait Envelope: Send + Sync + 'static {
    /// Opens the envelope in `content`: the message's body, or the content of an outer envelope.
    ///
    /// # Errors
    /// [`EnvelopeError`] if it is not such an envelope. The record is terminal, because a redelivery can't help.
    fn open(&self, content: &str, message: &Message) -> Result<Opened, EnvelopeError>;
}

/// An envelope that can't be opened. The error is logged and added to the dead letter. It names what is missing, but shows no
/// value of the body.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the {envelope} envelope can't be opened: {problem}")]
pub struct EnvelopeError {
    envelope: &'static str,
    problem: String,
}

impl EnvelopeError {
    /// Which envelope it is, and what is wrong with it.
    pub fn new(envelope: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self { envelope, problem }
    }
}

macro_rules! tuples {
    ($(($($envelope:ident)*))*) => {$(
        /// Envelopes in one another, outermost first.
        impl<$($envelope: Envelope),*> Envelope for ($($envelope,)*) {
            fn open(&self, content: &str, message: &Message) -> Result<Opened, EnvelopeError> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($envelope,)*) = self;
                let mut opened = Opened::untouched();
                $(
                    if opened.ignored_because().is_none() {
                        let inside = opened.content().unwrap_or(content);
                        opened = $envelope.open(inside, message)?.inside(opened);
                    }
                )*
                Ok(opened)
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) }
