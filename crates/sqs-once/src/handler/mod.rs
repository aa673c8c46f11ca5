//! The handler: an async function of a payload and extractors, and its return types.

pub(crate) mod batch;
pub(crate) mod batch_handler;
pub(crate) mod blocking;
pub(crate) mod decode;
pub(crate) mod error;
mod error_types;
pub(crate) mod extract;
mod layer;
mod modes;
pub(crate) mod outcome;
mod prepare;
mod prepared;
mod reader;

use std::any::type_name;

use crate::idempotency::Mode;
use crate::record::Needed;

pub use batch::BatchRecord;
pub(crate) use batch::{Batch, BatchOutcome};
pub(crate) use batch_handler::BatchParts;
pub use batch_handler::{BatchHandlerFn, IntoBatchOutcome};
pub(crate) use blocking::Running;
pub(crate) use error::HandlerError;
pub use error_types::ErrorDisposition;
#[cfg(feature = "testing")]
pub(crate) use error_types::UNDECLARED;
pub(crate) use error_types::{ErrorTypes, as_type};
pub(crate) use extract::{Attempt, FromRecord, IdempotencyToken, RecordParts, Remaining, State};
pub use layer::Next;
pub(crate) use layer::{Call, Decide, Layers};
pub use modes::{ClaimFirst, RecordAfter};
pub use outcome::{Done, IntoOutcome};
pub(crate) use prepare::{
    BatchCall, Bind, ErasedHandler, FetchBody, Payload, PrepareResult, WithEnvelope, Work, erase,
    erase_batch,
};
pub(crate) use prepared::{CallFuture, PrepareError, Prepared, Preparing, Waits};
pub(crate) use reader::{Compared, Reader};
pub use sqs_once_macros::ErrorDisposition;

/// An async function that handles one message.
///
/// Its first argument is the payload; up to eight extractors ([`FromRecord`]) may follow. It returns
/// something that is [`IntoOutcome`]: usually `Result<(), HandlerError>`, a [`Completion`](crate::Completion), or
/// [`Writes`](crate::Writes).
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::{HandlerError, IdempotencyToken, ResultExt, State};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String, amount_cents: u64 }
///
/// #[derive(Clone)]
/// struct Payments;
///
/// # impl Payments {
/// #     async fn charge(&self, _: u64, _: &IdempotencyToken) -> std::io::Result<()> { Ok(()) }
/// # }
/// async fn charge(
///     order: OrderPlaced,
///     token: IdempotencyToken,
///     State(payments): State<Payments>,
/// ) -> Result<(), HandlerError> {
///     if order.amount_cents == 0 {
///         return Err("nothing to charge").terminal();            // a retry can't fix it
///     }
///     payments.charge(order.amount_cents, &token).await?;        // `?` means: try again later
///     Ok(())
/// }
///
/// let handler = sqs_once::Handler::json::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .state(Payments)
///     .call(charge);
/// ```
///
/// The handlers of a batch share one task, and take turns at every `await`. Shortly before the function's deadline the
/// consumer cancels a handler: it drops the future at an `await`. A task that the handler has spawned continues, possibly
/// at the same time as the next delivery of the message.
///
/// # Blocking code
///
/// Blocking code can't be cancelled and delays the other messages of its batch. It also delays the answer if the whole
/// program runs on a single thread (`#[tokio::main(flavor = "current_thread")]`). Move it to its own thread:
///
/// ```
/// use std::time::Instant;
///
/// use serde_json::Value;
/// use sqs_once::extract::Remaining;
/// use sqs_once::{HandlerError, IdempotencyToken};
/// # use serde_json::json;
/// # use sqs_once::testing::{Bench, Event};
///
/// #[sqs_once::handler(key = order["order_id"].as_str(), namespace = "labels")]
/// async fn print_label(
///     order: Value,
///     token: IdempotencyToken,
///     remaining: Remaining,
/// ) -> Result<(), HandlerError> {
///     let until = Instant::now() + remaining.duration();
///     let work = move || printer::print(&order, token.as_str(), until);
///     sqs_once::spawn_blocking(work).await??; // one `?` for a panic, one for the printer's error
///     Ok(())
/// }
///
/// mod printer {
///     use std::io::{Error, ErrorKind};
///     use std::time::Instant;
///
///     /// Blocks. A job that the printer has seen is not printed again.
///     pub fn print(label: &serde_json::Value, job: &str, until: Instant) -> Result<(), Error> {
///         while is_busy() {
///             if Instant::now() >= until {
///                 return Err(ErrorKind::TimedOut.into());
///             }
///             std::thread::yield_now();
///         }
///         submit(label, job)
///     }
/// #   fn is_busy() -> bool { false }
/// #   fn submit(_: &serde_json::Value, _: &str) -> Result<(), Error> { Ok(()) }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let event = Event::new([&json!({ "order_id": "o-1001" })]);
/// # Bench::new(print_label::consumer()).run(event).await.assert_processed("m-1");
/// # }
/// ```
///
/// That thread can't be stopped. When the consumer cancels the handler, the message fails, its claim lapses, and the
/// work continues. The consumer takes no other event until the work has ended, and Lambda may end the process at the
/// function's timeout: see [`spawn_blocking`](crate::spawn_blocking). To keep the process alive, limit the work to the
/// time of [`Remaining`], with a timeout in its client or a check in its loop. Pass the [`IdempotencyToken`] on, so
/// that the receiver recognises a repetition.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler for the payload `{T}` with the state `{S}`",
    label = "not a handler",
    note = "a handler is an `async fn` whose first argument is the payload and whose other arguments are extractors",
    note = "it returns `Result<(), HandlerError>`, a `Completion` or `Writes` in place of the `()`, or `()`, and its future must be `Send`",
    note = "`#[sqs_once::handler]` on the function tells what is wrong"
)]
pub trait HandlerFn<T, S, X>: Clone + Send + Sync + 'static {
    /// When the message's key is completed. Default: after the effect, and it is claimed first.
    #[doc(hidden)]
    const MODE: Mode = Mode::ClaimFirst;

    /// The function's name, for messages.
    #[doc(hidden)]
    fn name() -> &'static str {
        type_name::<Self>()
    }

    /// The metadata without which it fails for every message.
    #[doc(hidden)]
    fn needs() -> Vec<Needed> {
        Vec::new()
    }

    /// Handles the message.
    fn call(
        &self,
        payload: T,
        parts: RecordParts<S>,
    ) -> impl Future<Output = Result<Done, HandlerError>> + Send + 'static;
}

macro_rules! handlers {
    ($(($($extractor:ident)*))*) => {$(
        impl<F, Fut, T, S, $($extractor),*> HandlerFn<T, S, ($($extractor,)*)> for F
        where
            F: Fn(T, $($extractor),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output: IntoOutcome> + Send + 'static,
            T: Send + 'static,
            S: Send + Sync + 'static,
            $($extractor: FromRecord<S> + Send + 'static,)*
        {
            const MODE: Mode = Mode::of(
                <Fut::Output as IntoOutcome>::WRITES,
                false $(|| $extractor::TRANSACTION)*,
            );

            fn needs() -> Vec<Needed> {
                let needs: &[Option<Needed>] = &[$($extractor::NEEDS),*];
                needs.iter().copied().flatten().collect()
            }

            #[allow(non_snake_case, unused_variables, reason = "the macro names each variable after its type")]
            fn call(
                &self,
                payload: T,
                parts: RecordParts<S>,
            ) -> impl Future<Output = Result<Done, HandlerError>> + Send + 'static {
                let handler = self.clone();
                async move {
                    $(let $extractor = $extractor::from_record(&parts).await?;)*
                    handler(payload, $($extractor),*).await.end(&parts).await
                }
            }
        }
    )*};
}

handlers! {
    () (E1) (E1 E2) (E1 E2 E3) (E1 E2 E3 E4) (E1 E2 E3 E4 E5) (E1 E2 E3 E4 E5 E6)
    (E1 E2 E3 E4 E5 E6 E7) (E1 E2 E3 E4 E5 E6 E7 E8)
}
