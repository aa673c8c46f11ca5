//! A handler with its payload and state types erased, as a batch uses it.

use std::any::Any;
use std::sync::Arc;

use crate::error::ConfigError;
use crate::guarded::Guarded;
use crate::idempotency::{HandlerType, Mode};
use crate::key::KeyExtractor;
use crate::record::{BodyMemory, Correlate, Envelope, Message, Needed};

use super::prepared::{CallFuture, PrepareError, Prepared, Preparing, Waits};
use super::reader::Reader;
use super::{Batch, BatchHandlerFn, BatchParts, Done, HandlerError, HandlerFn, RecordParts};

pub(crate) type HandlerFuture = CallFuture<Done>;

pub(crate) type Start = Box<dyn FnOnce(RecordParts<()>) -> HandlerFuture + Send>;

/// A payload whose type only its handler knows.
pub(crate) type Payload = Box<dyn Any + Send>;

/// The result of each message, in the order of the call.
pub(crate) type BatchFuture = CallFuture<Vec<Result<Done, HandlerError>>>;

pub(crate) type BatchCall =
    Box<dyn Fn(Vec<(Payload, RecordParts<()>)>, BatchParts<()>) -> BatchFuture + Send + Sync>;

pub(crate) enum Work {
    /// A separate handler call.
    Call(Start),
    /// A payload for the single call of a batch handler.
    Join(Payload),
}

pub(crate) type PrepareResult = Result<Prepared<Work>, PrepareError>;

type Prepare = dyn Fn(&Arc<Message>, bool) -> Preparing<Work> + Send + Sync;

/// A handler with its payload and state types erased.
pub(crate) struct ErasedHandler {
    pub(crate) handler_type: HandlerType,
    pub(crate) mode: Mode,
    /// The metadata without which every message would fail.
    pub(crate) needs: Vec<Needed>,
    /// Whether messages have a fingerprint.
    pub(crate) compares: bool,
    /// Whether a preparation may have to wait.
    waits: bool,
    /// Decodes a message and extracts its key and, on request, its fingerprint.
    prepare: Box<Prepare>,
    /// The single call for all messages of a batch, if this is a batch handler.
    pub(crate) batch_call: Option<BatchCall>,
}

/// Checks the key extractor's settings, and returns the handler.
pub(crate) type Bind = Arc<dyn Fn() -> Result<ErasedHandler, ConfigError> + Send + Sync>;

/// Erases the types of a handler of single messages.
pub(crate) fn erase<T, K, S, H, X>(reader: Reader<T, K>, state: S, handler: H) -> Bind
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    S: Clone + Send + Sync + 'static,
    H: HandlerFn<T, S, X>,
{
    let (reader, state, handler) = (Arc::new(reader), Arc::new(state), Arc::new(handler));
    Arc::new(move || {
        reader.key.check()?;
        let (reader, state) = (Arc::clone(&reader), Arc::clone(&state));
        let handler = Arc::clone(&handler);
        Ok(ErasedHandler {
            handler_type: HandlerType::named::<H>(H::name()),
            mode: H::MODE,
            needs: [reader.key.needs(), H::needs()].concat(),
            compares: reader.compares(),
            waits: reader.waits(),
            prepare: Box::new(move |message, with_fingerprint| {
                let (handler, state) = (H::clone(&handler), S::clone(&state));
                let read = reader.read(message, with_fingerprint);
                read.map(|payload| {
                    Work::Call(Box::new(move |parts| {
                        Box::pin(handler.call(payload, parts.with_state(state)))
                    }))
                })
            }),
            batch_call: None,
        })
    })
}

/// Erases the types of a batch handler.
pub(crate) fn erase_batch<T, K, S, H, X>(reader: Reader<T, K>, state: S, handler: H) -> Bind
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    S: Clone + Send + Sync + 'static,
    H: BatchHandlerFn<T, S, X>,
{
    let (reader, state, handler) = (Arc::new(reader), Arc::new(state), Arc::new(handler));
    Arc::new(move || {
        reader.key.check()?;
        let (reader, state) = (Arc::clone(&reader), Arc::clone(&state));
        let handler = Arc::clone(&handler);
        Ok(ErasedHandler {
            handler_type: HandlerType::named::<H>(H::name()),
            mode: H::MODE,
            needs: reader.key.needs(),
            compares: reader.compares(),
            waits: reader.waits(),
            prepare: Box::new(move |message, with_fingerprint| {
                let read = reader.read(message, with_fingerprint);
                read.map(|payload| Work::Join(Box::new(Guarded::new(payload))))
            }),
            batch_call: Some(Box::new(move |records, parts| {
                let parts = parts.with_state(S::clone(&state));
                let records = records.into_iter().map(|(payload, mut record)| {
                    let payload = payload.downcast::<Guarded<T>>();
                    let payload = payload.ok().and_then(|mut payload| payload.take());
                    // `prepare` above created every payload, so its type matches.
                    let payload = payload.expect("a payload of this handler");
                    record.cancel_at = parts.cancel_at;
                    (payload, record)
                });
                let batch = Batch::new(records.collect());
                let identity = batch.identity();
                let outcome = handler.call(batch, parts);
                Box::pin(async move { outcome.await?.into_results(&identity) })
            })),
        })
    })
}

/// Fetches bodies that a producer has put elsewhere.
pub(crate) trait FetchBody: Send + Sync {
    /// Returns the body to which the message's content points, or `None` if the content is the body itself.
    fn fetch(&self, message: &Message) -> Option<CallFuture<String>>;

    /// Returns the memory that the bodies may take.
    fn memory(&self) -> &Arc<BodyMemory>;
}

/// Opens a message's envelope, and fetches its body, before its handler receives the message.
pub(crate) struct WithEnvelope {
    pub(crate) inner: Arc<ErasedHandler>,
    pub(crate) envelope: Option<Arc<dyn Envelope>>,
    pub(crate) correlate: Option<Correlate>,
    pub(crate) bodies: Option<Arc<dyn FetchBody>>,
}

impl WithEnvelope {
    /// Returns whether a preparation may have to wait.
    pub(crate) fn waits(&self) -> bool {
        self.bodies.is_some() || self.inner.waits
    }

    pub(crate) fn prepare(
        &self,
        message: &Arc<Message>,
        with_fingerprint: bool,
    ) -> Preparing<Work> {
        let opened = match &self.envelope {
            Some(envelope) => message.open(&**envelope),
            None => Ok(()),
        };
        // An envelope may contain the correlation id, which the log line of an unreadable message should have too.
        message.correlate(self.correlate.as_ref());
        match (opened, message.ignored_because()) {
            (Err(error), _) => Preparing::Ended(Err(PrepareError::Envelope(error))),
            (Ok(()), Some(reason)) => {
                Preparing::Ended(Err(PrepareError::Ignored(reason.to_owned())))
            }
            (Ok(()), None) => {
                let bodies = self.bodies.as_ref();
                let Some((bodies, body)) = bodies.and_then(|it| Some((it, it.fetch(message)?)))
                else {
                    return (self.inner.prepare)(message, with_fingerprint);
                };
                let (inner, message) = (Arc::clone(&self.inner), Arc::clone(message));
                let future = Box::pin(async move {
                    let message = Arc::new(message.with_fetched(body.await?));
                    let mut prepared = match (inner.prepare)(&message, with_fingerprint) {
                        Preparing::Ended(prepared) => prepared,
                        Preparing::Waits(waits) => waits.future.await?,
                    };
                    if let Ok(prepared) = &mut prepared {
                        prepared.message = Some(message);
                    }
                    Ok(prepared)
                });
                let memory = Some(Arc::clone(bodies.memory()));
                Preparing::Waits(Waits { future, memory })
            }
        }
    }
}
