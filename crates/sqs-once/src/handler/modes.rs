//! The wrappers of a handler that choose when its key is claimed and completed.

use std::any::type_name;

use crate::idempotency::Mode;
use crate::record::Needed;

use super::{
    Batch, BatchHandlerFn, BatchOutcome, BatchParts, Done, HandlerError, HandlerFn, RecordParts,
};

/// A handler whose key is looked up before it runs and completed afterwards, without a claim: `mode = record_after` in the
/// attribute.
///
/// At least once, deduplicated only against completions: two concurrent deliveries may both run. Use it for handlers that
/// are idempotent by themselves and should never wait for a lease. It costs one write per message instead of two. It does
/// not compile for a handler whose effect commits with the completion of its key.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::Handler;
/// use sqs_once::handler::RecordAfter;
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// async fn index(order: OrderPlaced) {}
///
/// let handler = Handler::json::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .call(RecordAfter(index));
/// ```
///
/// ```compile_fail,E0080
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
/// # use sqs_once::{Handler, Writes, handler::RecordAfter};
/// async fn store(order: OrderPlaced) -> Writes { Writes::new() }
///
/// Handler::json::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .call(RecordAfter(store));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RecordAfter<H>(pub H);

/// A handler that returns [`Writes`](crate::Writes), and whose key is claimed before it runs: `mode = claim_first` in the
/// attribute.
///
/// Effectively once, as without it: the writes commit with the completion of the key. The claim costs one more write
/// and ensures that the handler runs for one delivery at a time. It does not compile for any other handler: their keys
/// are claimed first already.
///
/// ```compile_fail,E0080
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
/// # use sqs_once::{Handler, handler::ClaimFirst};
/// async fn charge(order: OrderPlaced) {}
///
/// Handler::json::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .call(ClaimFirst(charge));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClaimFirst<H>(pub H);

macro_rules! wrappers {
    ($($wrapper:ident => $mode:ident),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T, S, X, H: HandlerFn<T, S, X>> HandlerFn<T, S, X> for $wrapper<H> {
            const MODE: Mode = H::MODE.$mode();

            fn name() -> &'static str {
                type_name::<H>()
            }

            fn needs() -> Vec<Needed> {
                H::needs()
            }

            fn call(
                &self,
                payload: T,
                parts: RecordParts<S>,
            ) -> impl Future<Output = Result<Done, HandlerError>> + Send + 'static {
                self.0.call(payload, parts)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<T, S, X, H: BatchHandlerFn<T, S, X>> BatchHandlerFn<T, S, X> for $wrapper<H> {
            const MODE: Mode = H::MODE.$mode();

            fn name() -> &'static str {
                type_name::<H>()
            }

            fn call(
                &self,
                batch: Batch<T>,
                parts: BatchParts<S>,
            ) -> impl Future<Output = Result<BatchOutcome, HandlerError>> + Send + 'static {
                self.0.call(batch, parts)
            }
        }
    )*};
}

wrappers! {
    RecordAfter => recording_after,
    ClaimFirst => claiming_first
}
