//! A batch handler with its types erased.

use crate::error::ConfigError;
use crate::guarded::Guarded;
use crate::key::KeyExtractor;
use crate::record::Message;

use super::prepare::{Bound, Payload, PrepareError, PrepareRecord, Prepared, Work};
use super::{
    Batch, BatchHandler, BatchParts, CallFuture, Done, HandlerError, HandlerType, RecordParts,
};

/// The result of each record, in the order in which they were given.
pub(crate) type BatchFuture = CallFuture<Vec<Result<Done, HandlerError>>>;

/// Calls a batch handler with the payloads that were decoded for it.
pub(crate) type BatchCall<'a, S> =
    Box<dyn FnOnce(Vec<(Payload, RecordParts<()>)>, BatchParts<S>) -> BatchFuture + Send + 'a>;

/// A handler that takes all records together.
pub(crate) struct WholeBatch<B>(pub(crate) B);

impl<T, K, S, H, X> PrepareRecord<S> for WholeBatch<Bound<T, K, H, X>>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    H: BatchHandler<T, S, X>,
    S: 'static,
{
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<Work<S>>, PrepareError> {
        let read = self.0.reader.read(message, with_fingerprint)?;
        Ok(read.map(|payload| Work::Join(Box::new(Guarded::new(payload)))))
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.0.reader.check()
    }

    fn handler_type(&self) -> HandlerType {
        HandlerType::of::<H>()
    }

    fn batch_call(&self) -> Option<BatchCall<'_, S>> {
        Some(Box::new(|records, parts| {
            let records = records.into_iter().map(|(payload, mut record)| {
                let payload = payload.downcast::<Guarded<T>>();
                let payload = payload.ok().and_then(|mut payload| payload.take());
                // Every payload here went through `prepare` above.
                let payload = payload.expect("a payload of this handler");
                record.cancelled_at = parts.cancelled_at;
                (payload, record)
            });
            let batch = Batch::new(records.collect());
            let identity = batch.identity();
            let outcome = self.0.handler.call(batch, parts);
            Box::pin(async move { outcome.await?.into_results(&identity) })
        }))
    }
}
