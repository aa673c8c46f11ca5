//! The batch handler: an async function that receives all messages at once, its extractors, and its return types.

use std::any::{Any, type_name};
use std::sync::Arc;

use lambda_runtime::Context;
use tokio::time::Instant;

use crate::idempotency::Mode;

#[cfg(feature = "dynamodb")]
use super::batch::BatchWrites;
use super::{Batch, BatchOutcome, HandlerError, Remaining, State};

/// An async function that handles all messages of a batch in one call, for effects that are cheaper together, such as a
/// bulk insert.
///
/// Its first argument is the [`Batch`]; up to eight extractors ([`FromBatch`]) may follow. It returns a
/// [`BatchOutcome`] or [`BatchWrites`](crate::BatchWrites), or a `Result` of one, which reports each message:
///
/// | it returns | then |
/// |---|---|
/// | a [`BatchOutcome`] | each message ends as it is reported; an unreported message fails |
/// | [`BatchWrites`](crate::BatchWrites) | likewise, and the writes of each message commit with the completion of its key |
/// | an error | every message fails with it: retryable, or terminal |
/// | nothing, since it panics | every message has failed |
/// | nothing in time | every message has failed, and its claim is left to lapse |
///
/// Each message has its own business key, claim and completion, so a redelivered message is a duplicate in any batch.
/// The call starts when the claims of all messages are decided. It does not start if no message is left to run.
/// Duplicates, messages that are in progress elsewhere, and messages with an unusable body or key end before the call.
/// Half of the time until the deadline margin is reserved for the call. Messages that are not claimed by then, or wait
/// for another worker, return to the queue.
///
/// [`attempt_timeout`](crate::Handler::attempt_timeout) limits the call; [`concurrency`](crate::Consumer::concurrency)
/// has no effect on it. All payloads of an event, which has 6 MB at most, are in memory at once. Keys are completed after
/// the call, 25 in a request. A call that ends shortly before the deadline needs a
/// [deadline margin](crate::consumer::Margins::deadline) that leaves time for this.
///
/// **Order.** The messages of a FIFO queue's message group arrive in order. The call leaves out messages after one of
/// their group that has already failed, is in progress elsewhere, or is not decided in half of the batch's time. The
/// handler is responsible for the order inside the call: stop at the first failure of a group, and leave the rest
/// unreported. If a message succeeded after an earlier one failed, its key is still completed and the message
/// acknowledged, with a warning in its log line, because a retry would not undo its effect.
/// [`BatchWrites`](crate::BatchWrites) of such a message do not commit.
///
/// **Its promise** is *at least once, deduplicated*. A handler that returns [`BatchWrites`](crate::BatchWrites), or does
/// its work in the transaction of a store such as `sqs_once_postgres::BatchTransaction`, is *effectively once* for each
/// message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch handler for the payload `{T}` with the state `{S}`",
    label = "not a batch handler",
    note = "a batch handler is an `async fn` whose first argument is `Batch<{T}>`; `State<T>` and `Remaining` may follow",
    note = "it returns `Result<BatchOutcome, HandlerError>`, `BatchWrites` in place of the `BatchOutcome`, or one of the two, and its future must be `Send`",
    note = "`#[sqs_once::batch_handler]` on the function tells what is wrong"
)]
pub trait BatchHandlerFn<T, S, X>: Clone + Send + Sync + 'static {
    /// When the keys of its messages are completed. Default: after the effects, and they are claimed first.
    #[doc(hidden)]
    const MODE: Mode = Mode::ClaimFirst;

    /// The function's name, for messages.
    #[doc(hidden)]
    fn name() -> &'static str {
        type_name::<Self>()
    }

    /// Handles the batch.
    fn call(
        &self,
        batch: Batch<T>,
        parts: BatchParts<S>,
    ) -> impl Future<Output = Result<BatchOutcome, HandlerError>> + Send + 'static;
}

macro_rules! batch_handlers {
    ($(($($extractor:ident)*))*) => {$(
        impl<F, Fut, T, S, $($extractor),*> BatchHandlerFn<T, S, ($($extractor,)*)> for F
        where
            F: Fn(Batch<T>, $($extractor),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output: IntoBatchOutcome> + Send + 'static,
            T: Send + 'static,
            S: Send + Sync + 'static,
            $($extractor: FromBatch<S> + Send + 'static,)*
        {
            const MODE: Mode = Mode::of(
                <Fut::Output as IntoBatchOutcome>::WRITES,
                false $(|| $extractor::TRANSACTION)*,
            );

            #[allow(non_snake_case, unused_variables, reason = "the macro names each variable after its type")]
            fn call(
                &self,
                batch: Batch<T>,
                parts: BatchParts<S>,
            ) -> impl Future<Output = Result<BatchOutcome, HandlerError>> + Send + 'static {
                let handler = self.clone();
                async move {
                    $(let $extractor = $extractor::from_batch(&parts).await?;)*
                    handler(batch, $($extractor),*).await.into_batch_outcome()
                }
            }
        }
    )*};
}

batch_handlers! {
    () (E1) (E1 E2) (E1 E2 E3) (E1 E2 E3 E4) (E1 E2 E3 E4 E5) (E1 E2 E3 E4 E5 E6)
    (E1 E2 E3 E4 E5 E6 E7) (E1 E2 E3 E4 E5 E6 E7 E8)
}

/// The data of a whole batch that an extractor can use.
#[derive(Clone, Debug)]
pub struct BatchParts<S = ()> {
    pub(crate) invocation: Arc<Context>,
    pub(crate) cancel_at: Instant,
    pub(crate) transaction: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) state: S,
}

impl<S> BatchParts<S> {
    /// Returns Lambda's context of the invocation.
    pub fn context(&self) -> &Context {
        &self.invocation
    }

    /// Returns the handler's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Returns the transaction that the store has opened for the batch, for the store's own extractor. `None` unless the
    /// handler has an argument whose [`FromBatch::TRANSACTION`] is set.
    pub fn transaction(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.transaction.clone()
    }

    pub(crate) fn with_state<S2>(self, state: S2) -> BatchParts<S2> {
        BatchParts {
            invocation: self.invocation,
            cancel_at: self.cancel_at,
            transaction: self.transaction,
            state,
        }
    }
}

/// An argument that a batch handler may take after its batch.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an extractor of a batch for a consumer with the state `{S}`",
    label = "not an extractor of a batch",
    note = "what belongs to one message is asked of its `BatchRecord`: `record.token()`, `record.attempt()`, `record.key()`, `record.message()`, or `record.extract::<E>().await`",
    note = "after the batch a batch handler may take `Remaining`, `Context`, or `State<T>` of a consumer with exactly that state: `.state(value)`",
    note = "the transaction of a batch is a type of its own, such as `sqs_once_postgres::BatchTransaction`",
    note = "for a type of your own, implement `sqs_once::extract::FromBatch`"
)]
pub trait FromBatch<S>: Sized {
    /// Whether the handler works inside one transaction of the store for all messages: see
    /// [`Transactions`](crate::store::Transactions). Default: no.
    const TRANSACTION: bool = false;

    /// Extracts the value from the batch. Implement it as an `async fn`. Its time counts as the handler's time, and it
    /// is cancelled at the deadline.
    ///
    /// # Errors
    /// Every message of the batch fails as if the handler had returned the error.
    fn from_batch(parts: &BatchParts<S>)
    -> impl Future<Output = Result<Self, HandlerError>> + Send;
}

impl<S: Clone + Send + Sync> FromBatch<S> for State<S> {
    async fn from_batch(parts: &BatchParts<S>) -> Result<Self, HandlerError> {
        Ok(Self(parts.state.clone()))
    }
}

/// Lambda's context of the invocation: its request id, its deadline, the function's ARN.
impl<S: Sync> FromBatch<S> for Context {
    async fn from_batch(parts: &BatchParts<S>) -> Result<Self, HandlerError> {
        Ok(parts.context().clone())
    }
}

impl<S: Sync> FromBatch<S> for Remaining {
    async fn from_batch(parts: &BatchParts<S>) -> Result<Self, HandlerError> {
        Ok(Self(parts.cancel_at))
    }
}

/// What a batch handler returns: a [`BatchOutcome`], [`BatchWrites`](crate::BatchWrites), or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something a batch handler can return",
    label = "not a batch's outcome",
    note = "return `Result<BatchOutcome, HandlerError>`, or `BatchOutcome` for a handler that can't fail as a whole",
    note = "`orders.all_succeeded()` makes one when all went well, `orders.outcome()` one to fill in message by message",
    note = "writes to DynamoDB that commit with the completions of the keys: `Result<BatchWrites, HandlerError>`, made by `orders.writes()`"
)]
pub trait IntoBatchOutcome {
    /// Whether the type contains [`Writes`](crate::Writes). Default: no.
    #[doc(hidden)]
    const WRITES: bool = false;

    /// Returns the result of each message, or the error for all of them.
    ///
    /// # Errors
    /// The handler's own error.
    fn into_batch_outcome(self) -> Result<BatchOutcome, HandlerError>;
}

impl IntoBatchOutcome for BatchOutcome {
    fn into_batch_outcome(self) -> Result<BatchOutcome, HandlerError> {
        Ok(self)
    }
}

#[cfg(feature = "dynamodb")]
impl IntoBatchOutcome for BatchWrites {
    const WRITES: bool = true;

    fn into_batch_outcome(self) -> Result<BatchOutcome, HandlerError> {
        Ok(self.0)
    }
}

#[diagnostic::do_not_recommend]
impl<T: IntoBatchOutcome, E: Into<HandlerError>> IntoBatchOutcome for Result<T, E> {
    const WRITES: bool = T::WRITES;

    fn into_batch_outcome(self) -> Result<BatchOutcome, HandlerError> {
        self.map_err(Into::into)?.into_batch_outcome()
    }
}
