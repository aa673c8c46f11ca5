//! The handler: an async function of a payload and extractors, and what it may return.

mod batch;
mod batch_handler;
mod error;
mod extract;
mod outcome;
mod prepare;
mod prepare_batch;

use std::future::Future;

pub use batch::{Batch, BatchOutcome, BatchRecord};
pub use batch_handler::{BatchHandler, BatchParts, FromBatch, IntoBatchOutcome};
pub use error::{HandlerError, ResultExt};
pub use extract::{
    Attempt, FromRecord, IdempotencyToken, Key, MessageMeta, RecordParts, Remaining, State,
};
pub use outcome::{Done, IntoOutcome, Recorded};
pub(crate) use prepare::{
    Bound, CallFuture, HandlerFuture, PrepareError, PrepareRecord, Stateful, TakeFingerprint, Work,
};
pub(crate) use prepare_batch::{BatchCall, Together};

/// An async function that handles one record.
///
/// Its first argument is the payload; up to eight extractors ([`FromRecord`]) may follow. It returns
/// something that is [`IntoOutcome`]: usually `Result<(), HandlerError>`, or a [`Recorded`] result.
///
/// The handlers of a batch share one task, and take turns at every `await`. A handler is cancelled (its
/// future is dropped at an `await`) shortly before the function's deadline. Code that blocks can't be
/// cancelled and holds up the other records of its batch, though not the answer, unless the whole
/// program runs on a single thread (`#[tokio::main(flavor = "current_thread")]`): move it to
/// `tokio::task::spawn_blocking`. What a handler has spawned goes on when the handler is cancelled.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler for the payload `{T}` with the state `{S}`",
    label = "not a handler",
    note = "a handler is an `async fn` whose first argument is the payload and whose other arguments are extractors",
    note = "it returns `Result<(), HandlerError>` or `()`, and its future must be `Send`",
    note = "`#[sqs_once::handler]` on the function tells what is wrong"
)]
pub trait Handler<T, S, X>: Clone + Send + Sync + 'static {
    /// Handles the record.
    fn call(
        &self,
        payload: T,
        parts: RecordParts<S>,
    ) -> impl Future<Output = Result<Done, HandlerError>> + Send + 'static;
}

macro_rules! handlers {
    ($(($($extractor:ident)*))*) => {$(
        impl<F, Fut, T, S, $($extractor),*> Handler<T, S, ($($extractor,)*)> for F
        where
            F: Fn(T, $($extractor),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output: IntoOutcome> + Send + 'static,
            T: Send + 'static,
            S: Send + Sync + 'static,
            $($extractor: FromRecord<S> + Send + 'static,)*
        {
            #[allow(non_snake_case, unused_variables, reason = "the macro names each variable after its type")]
            fn call(
                &self,
                payload: T,
                parts: RecordParts<S>,
            ) -> impl Future<Output = Result<Done, HandlerError>> + Send + 'static {
                let handler = self.clone();
                async move {
                    $(let $extractor = $extractor::from_record(&parts)?;)*
                    handler(payload, $($extractor),*).await.into_outcome()
                }
            }
        }
    )*};
}

handlers! {
    () (E1) (E1 E2) (E1 E2 E3) (E1 E2 E3 E4) (E1 E2 E3 E4 E5) (E1 E2 E3 E4 E5 E6)
    (E1 E2 E3 E4 E5 E6 E7) (E1 E2 E3 E4 E5 E6 E7 E8)
}
