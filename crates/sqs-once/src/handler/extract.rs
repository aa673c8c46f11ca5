//! Extractors: the arguments that a handler may take after its payload.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lambda_runtime::Context;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::error::Disposition;
use crate::key::{BusinessKey, HexDigest, ItemId, Namespace};
use crate::record::{
    CorrelationId, EventBridgeMeta, EventBusMeta, Message, Needed, S3Object, SnsMeta,
};
use crate::store::Fence;

use super::HandlerError;

/// The data of a message that an extractor can use.
#[derive(Clone, Debug)]
pub struct RecordParts<S = ()> {
    pub(crate) message: Arc<Message>,
    pub(crate) invocation: Arc<Context>,
    pub(crate) key: Arc<BusinessKey>,
    pub(crate) namespace: Namespace,
    pub(crate) item: ItemId,
    pub(crate) fence: Fence,
    pub(crate) cancel_at: Instant,
    pub(crate) route: Option<Arc<str>>,
    pub(crate) transaction: Option<Arc<dyn Any + Send + Sync>>,
    /// Whether an earlier attempt may have had an effect.
    pub(crate) is_repeated: bool,
    /// What happens to a message that differs from an earlier one with its key. `None` if it is acknowledged.
    pub(crate) mismatch: Option<Disposition>,
    pub(crate) state: S,
}

impl<S> RecordParts<S> {
    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns Lambda's context of the invocation.
    pub fn context(&self) -> &Context {
        &self.invocation
    }

    /// Returns the handler's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The message's business key.
    pub fn key(&self) -> &BusinessKey {
        &self.key
    }

    /// The id of the key's item in the table.
    pub fn item_id(&self) -> &ItemId {
        &self.item
    }

    /// The token that is the same for every attempt at this message's event.
    pub fn token(&self) -> IdempotencyToken {
        IdempotencyToken::of(&self.namespace, &self.key)
    }

    /// The delivery count, and the fencing token of this message's claim.
    pub fn attempt(&self) -> Attempt {
        Attempt::of(self)
    }

    /// The name of the message's route in a [router](crate::Router); `None` without a router.
    pub fn route(&self) -> Option<&str> {
        self.route.as_deref()
    }

    /// Returns the transaction that the store has opened for this message, for the store's own extractor. `None` unless
    /// the handler has an argument whose [`FromRecord::TRANSACTION`] is set.
    pub fn transaction(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.transaction.clone()
    }

    pub(crate) fn with_state<S2>(self, state: S2) -> RecordParts<S2> {
        RecordParts {
            message: self.message,
            invocation: self.invocation,
            key: self.key,
            namespace: self.namespace,
            item: self.item,
            fence: self.fence,
            cancel_at: self.cancel_at,
            route: self.route,
            transaction: self.transaction,
            is_repeated: self.is_repeated,
            mismatch: self.mismatch,
            state,
        }
    }
}

/// An argument that a handler may take after its payload.
///
/// ```
/// use sqs_once::extract::{FromRecord, RecordParts};
/// use sqs_once::HandlerError;
///
/// /// The tenant that the producer names.
/// struct Tenant(String);
///
/// impl<S: Sync> FromRecord<S> for Tenant {
///     async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
///         let tenant = parts.message().attribute("tenant").unwrap_or("none");
///         Ok(Self(tenant.to_owned()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an extractor for a consumer with the state `{S}`",
    label = "not an extractor",
    note = "after the payload a handler may take `IdempotencyToken`, `Attempt`, `Arc<Message>`, `Remaining`, `BusinessKey`, `Context`, `CorrelationId`, what an envelope says (`SnsMeta`, `EventBridgeMeta`, `EventBusMeta`, `S3Object`), or `State<T>`",
    note = "`State<T>` needs a consumer with exactly that state: `.state(value)`",
    note = "for a type of your own, implement `sqs_once::extract::FromRecord`"
)]
pub trait FromRecord<S>: Sized {
    /// Whether the handler works inside a transaction of the store: see
    /// [`Transactions`](crate::store::Transactions). Default: no.
    const TRANSACTION: bool = false;

    /// The metadata without which it fails for every message.
    #[doc(hidden)]
    const NEEDS: Option<Needed> = None;

    /// Extracts the value from the message. Implement it as an `async fn`. Its time counts as the handler's time, and it
    /// is cancelled at the deadline.
    ///
    /// # Errors
    /// The handler is not called, and the message fails as if the handler had returned the error.
    fn from_record(
        parts: &RecordParts<S>,
    ) -> impl Future<Output = Result<Self, HandlerError>> + Send;
}

/// The handler's state: clients, settings, and other values that are created once per process. It is cloned for every
/// message, so make it cheap to clone (an `Arc` inside).
#[derive(Clone, Copy, Debug)]
pub struct State<S>(pub S);

impl<S: Clone + Send + Sync> FromRecord<S> for State<S> {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(Self(parts.state.clone()))
    }
}

/// A token that is the same for every attempt at the same event. Pass it on to services that deduplicate by themselves,
/// for example in an `Idempotency-Key` header. 32 hexadecimal digits.
///
/// The token closes the one window that a claim can't: the attempt dies after the effect and before its key is
/// completed.
///
/// It is made from the namespace and the key. With another namespace, such as that of a new route, the next attempt has
/// another token, and the service sees a new request.
///
/// A message that runs without a key ([`MissingKey::ProcessUnprotected`](crate::policy::MissingKey)) has a token that is
/// the same for each of its deliveries. A message that is sent again has another token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyToken(Arc<str>);

impl IdempotencyToken {
    pub(crate) fn of(namespace: &Namespace, key: &BusinessKey) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"sqs-once idempotency token\0");
        // Uses the digest instead of the id, so that an event's token does not depend on the form of its id in the
        // table.
        for part in [namespace.as_str(), "#", key.digest().as_str()] {
            hash.update(part);
        }
        Self::ending(hash)
    }

    /// Returns the token of one of several calls that the handler makes for its event. `call` is a name that stays the same
    /// in every attempt, such as `transfer`.
    ///
    /// A service that knows tokens refuses a second request of another kind under the token of the first.
    ///
    /// ```
    /// # use sqs_once::{HandlerError, IdempotencyToken};
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # mod bank {
    /// #     pub async fn reserve(_: &sqs_once::IdempotencyToken) -> std::io::Result<()> { Ok(()) }
    /// #     pub async fn transfer(_: &sqs_once::IdempotencyToken) -> std::io::Result<()> { Ok(()) }
    /// # }
    /// #[sqs_once::handler(key = order.order_id, namespace = "payouts")]
    /// async fn pay_out(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
    ///     bank::reserve(&token.for_call("reserve")).await?;
    ///     bank::transfer(&token.for_call("transfer")).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn for_call(&self, call: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"sqs-once idempotency token of a call\0");
        // The token has a fixed length, so that no other token with another call has the same text.
        hash.update(&*self.0);
        hash.update(call);
        Self::ending(hash)
    }

    fn ending(hash: Sha256) -> Self {
        Self(HexDigest::end(hash).as_str()[..32].into())
    }

    /// Returns the token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<S: Sync> FromRecord<S> for IdempotencyToken {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(Self::of(&parts.namespace, &parts.key))
    }
}

/// The delivery count of a message, and the fencing token of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    receive_count: Option<u32>,
    fence: Fence,
}

impl Attempt {
    pub(super) fn of<S>(parts: &RecordParts<S>) -> Self {
        Self {
            receive_count: parts.message.receive_count(),
            fence: parts.fence,
        }
    }

    /// Returns how often SQS has delivered this message, including this time; 1 if the event lacks the count.
    pub fn receive_count(&self) -> u32 {
        self.receive_count.unwrap_or(1)
    }

    /// Returns the fencing token of this claim. A later claim of the same key always has a larger one. Store it with
    /// the handler's writes and refuse writes with a smaller one, to keep out a worker that was presumed dead. If
    /// Powertools for AWS Lambda has attempted the key, fencing tokens grow as far as the workers' clocks agree; so they do
    /// after a PostgreSQL transaction with the claim was rolled back, because it leaves no token.
    ///
    /// Two concurrent attempts may have the same fencing token if the key is not claimed before the handler: in
    /// [`RecordAfter`](crate::handler::RecordAfter) or for [`Writes`](crate::Writes). `Writes` need no token, because the
    /// key's item refuses writes of a worker that was presumed dead.
    pub fn fence(&self) -> Fence {
        self.fence
    }
}

impl<S: Sync> FromRecord<S> for Attempt {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(Self::of(parts))
    }
}

/// The message, with its body and its metadata.
impl<S: Sync> FromRecord<S> for Arc<Message> {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(Self::clone(&parts.message))
    }
}

/// Lambda's context of the invocation: its request id, its deadline, the function's ARN.
impl<S: Sync> FromRecord<S> for Context {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(parts.context().clone())
    }
}

/// When the handler will be cancelled: the function's deadline minus the deadline margin.
#[derive(Clone, Copy, Debug)]
pub struct Remaining(pub(super) Instant);

impl Remaining {
    /// Returns how long the handler may still run from now. Use it as the timeout of a slow call.
    pub fn duration(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

impl<S: Sync> FromRecord<S> for Remaining {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(Self(parts.cancel_at))
    }
}

/// The message's business key.
impl<S: Sync> FromRecord<S> for BusinessKey {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(parts.key().clone())
    }
}

/// The id of the key's item in the table.
impl<S: Sync> FromRecord<S> for ItemId {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(parts.item_id().clone())
    }
}

macro_rules! extractors {
    ($($metadata:ident, $envelope:literal, $named:literal;)*) => {$(
        /// Returns a terminal error for a message that did not come in this envelope.
        impl<S: Sync> FromRecord<S> for $metadata {
            const NEEDS: Option<Needed> = Some(Needed::new::<Self>(stringify!($metadata), $named));

            async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
                Option::<Self>::from_record(parts).await?.ok_or_else(|| {
                    HandlerError::terminal(concat!(
                        "the handler asks for ",
                        stringify!($metadata),
                        ", but the message did not come in ",
                        $envelope,
                        " that the consumer opened: see Handler::envelope, or ask for an Option of it"
                    ))
                })
            }
        }

        /// `None` for a message that did not come in this envelope.
        impl<S: Sync> FromRecord<S> for Option<$metadata> {
            async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
                Ok(parts.message().metadata().cloned())
            }
        }
    )*};
}

extractors! {
    SnsMeta, "an SNS envelope", "Sns";
    EventBridgeMeta, "an EventBridge envelope", "EventBridge";
    EventBusMeta, "an event bus's envelope", "EventBus";
    S3Object, "an S3 notification", "S3";
}

/// Returns a terminal error for a message without a correlation id.
impl<S: Sync> FromRecord<S> for CorrelationId {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Option::<Self>::from_record(parts).await?.ok_or_else(|| {
            HandlerError::terminal(
                "the handler asks for a CorrelationId, but the message has none: ask for an Option of it",
            )
        })
    }
}

/// `None` for a message without a correlation id.
impl<S: Sync> FromRecord<S> for Option<CorrelationId> {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(parts.message().correlation_id().cloned())
    }
}
