//! A handler with its payload and state types erased, as a batch uses it.

use std::any::Any;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use thiserror::Error;

use crate::error::ConfigError;
use crate::guarded::Guarded;
use crate::idempotency::{Effect, HandlerType};
use crate::key::{BusinessKey, Fingerprint, KeyError, KeyExtractor};
use crate::record::{BodyMemory, Correlate, DecodeError, Envelope, EnvelopeError, Message, Needed};

use super::reader::Reader;
use super::{Batch, BatchHandler, BatchParts, Done, Handler, HandlerError, RecordParts};

pub(crate) type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>;
pub(crate) type HandlerFuture = CallFuture<Done>;

pub(crate) type Start<S> = Box<dyn FnOnce(RecordParts<S>) -> HandlerFuture + Send>;

/// A payload whose type only its handler knows.
pub(crate) type Payload = Box<dyn Any + Send>;

/// The result of each record, in the order of the call's records.
pub(crate) type BatchFuture = CallFuture<Vec<Result<Done, HandlerError>>>;

pub(crate) type BatchCall<'a, S> =
    Box<dyn FnOnce(Vec<(Payload, RecordParts<()>)>, BatchParts<S>) -> BatchFuture + Send + 'a>;

pub(crate) enum Work<S> {
    /// A separate handler call.
    Call(Start<S>),
    /// A payload for the single call of a batch handler.
    Join(Payload),
}

impl<S: Send + 'static> Work<S> {
    fn with_state(self, state: impl FnOnce() -> S) -> Work<()> {
        match self {
            Self::Call(start) => {
                let state = state();
                Work::Call(Box::new(move |parts| start(parts.with_state(state))))
            }
            Self::Join(payload) => Work::Join(payload),
        }
    }
}

/// A record with its decoded payload and its key, or the reason why it has none.
pub(crate) struct Prepared<W> {
    pub(crate) key: Result<BusinessKey, KeyError>,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The message with the body that was fetched for it, if it was.
    pub(crate) message: Option<Arc<Message>>,
    /// The payload, and later the work on it.
    pub(crate) work: W,
}

impl<W> Prepared<W> {
    fn map<W2>(self, change: impl FnOnce(W) -> W2) -> Prepared<W2> {
        Prepared {
            key: self.key,
            fingerprint: self.fingerprint,
            message: self.message,
            work: change(self.work),
        }
    }
}

/// Why no handler is called for a record.
#[derive(Debug, Error)]
pub(crate) enum PrepareError {
    /// The message is valid but contains no event.
    #[error("{0}")]
    Ignored(String),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error("the message has no body")]
    NoBody,
    #[error(transparent)]
    Body(#[from] DecodeError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the payload has no usable fingerprint: {0}")]
    Fingerprint(KeyError),
    #[error("the envelope, the decoder, the payload type or the state panicked")]
    Panic,
}

pub(crate) type PrepareResult<S> = Result<Prepared<Work<S>>, PrepareError>;

/// The preparation of a record: its result, or what has to be waited for.
pub(crate) enum Preparing<W> {
    Ended(Result<Prepared<W>, PrepareError>),
    Waits(Waits<W>),
}

/// A preparation that has to be waited for.
pub(crate) struct Waits<W> {
    pub(crate) future: CallFuture<Result<Prepared<W>, PrepareError>>,
    /// The memory for the body that it fetches. The future is polled once a part of it is reserved.
    pub(crate) memory: Option<Arc<BodyMemory>>,
}

impl<W: Send + 'static> Preparing<W> {
    fn map<W2>(self, change: impl FnOnce(W) -> W2 + Send + 'static) -> Preparing<W2> {
        match self {
            Self::Ended(result) => Preparing::Ended(result.map(|prepared| prepared.map(change))),
            Self::Waits(Waits { future, memory }) => Preparing::Waits(Waits {
                future: Box::pin(async move {
                    let result = future.await?;
                    Ok(result.map(|prepared| prepared.map(change)))
                }),
                memory,
            }),
        }
    }
}

/// Decodes records and calls the handler for them.
pub(crate) trait PrepareRecord<S>: Send + Sync {
    /// Decodes a record and extracts its key and, on request, its fingerprint.
    fn prepare(&self, message: &Arc<Message>, with_fingerprint: bool) -> Preparing<Work<S>>;

    /// Returns whether a preparation may have to wait.
    fn waits(&self) -> bool;

    /// Checks the key extractor's settings, and that the consumer's envelope has the metadata without which every
    /// record would fail.
    fn check(&self, envelope: Option<&dyn Envelope>) -> Result<(), ConfigError>;

    fn handler_type(&self) -> HandlerType;

    /// Returns the single call for all records of a batch, if this is a batch handler.
    fn batch_call(&self) -> Option<BatchCall<'_, S>> {
        None
    }

    fn effect(&self) -> Effect {
        Effect::APART
    }
}

pub(crate) struct Bound<T, K, H, X> {
    reader: Arc<Reader<T, K>>,
    handler: H,
    types: PhantomData<fn(X)>,
}

impl<T, K, H, X> Bound<T, K, H, X> {
    pub(crate) fn new(reader: Reader<T, K>, handler: H) -> Self {
        Self {
            reader: Arc::new(reader),
            handler,
            types: PhantomData,
        }
    }
}

impl<T, K, S, H, X> PrepareRecord<S> for Bound<T, K, H, X>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    H: Handler<T, S, X>,
    S: 'static,
{
    fn prepare(&self, message: &Arc<Message>, with_fingerprint: bool) -> Preparing<Work<S>> {
        let handler = self.handler.clone();
        let read = self.reader.read(message, with_fingerprint);
        read.map(|payload| {
            Work::Call(Box::new(move |parts| {
                Box::pin(handler.call(payload, parts))
            }))
        })
    }

    fn waits(&self) -> bool {
        self.reader.waits()
    }

    fn check(&self, envelope: Option<&dyn Envelope>) -> Result<(), ConfigError> {
        self.reader.check(envelope)?;
        Needed::check_all(H::needs(), envelope)
    }

    fn handler_type(&self) -> HandlerType {
        HandlerType::of::<H>()
    }

    fn effect(&self) -> Effect {
        H::EFFECT
    }
}

pub(crate) struct WholeBatch<B>(pub(crate) B);

impl<T, K, S, H, X> PrepareRecord<S> for WholeBatch<Bound<T, K, H, X>>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    H: BatchHandler<T, S, X>,
    S: 'static,
{
    fn prepare(&self, message: &Arc<Message>, with_fingerprint: bool) -> Preparing<Work<S>> {
        let read = self.0.reader.read(message, with_fingerprint);
        read.map(|payload| Work::Join(Box::new(Guarded::new(payload))))
    }

    fn waits(&self) -> bool {
        self.0.reader.waits()
    }

    fn check(&self, envelope: Option<&dyn Envelope>) -> Result<(), ConfigError> {
        self.0.reader.check(envelope)
    }

    fn handler_type(&self) -> HandlerType {
        HandlerType::of::<H>()
    }

    fn batch_call(&self) -> Option<BatchCall<'_, S>> {
        Some(Box::new(|records, parts| {
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
            let outcome = self.0.handler.call(batch, parts);
            Box::pin(async move { outcome.await?.into_results(&identity) })
        }))
    }

    fn effect(&self) -> Effect {
        H::EFFECT
    }
}

pub(crate) struct Stateful<S> {
    pub(crate) inner: Arc<dyn PrepareRecord<S>>,
    pub(crate) state: S,
}

impl<S: Clone + Send + Sync + 'static> PrepareRecord<()> for Stateful<S> {
    fn prepare(&self, message: &Arc<Message>, with_fingerprint: bool) -> Preparing<Work<()>> {
        match self.inner.prepare(message, with_fingerprint) {
            Preparing::Ended(prepared) => Preparing::Ended(
                prepared
                    .map(|prepared| prepared.map(|work| work.with_state(|| self.state.clone()))),
            ),
            waits @ Preparing::Waits(_) => {
                let state = self.state.clone();
                waits.map(|work| work.with_state(|| state))
            }
        }
    }

    fn waits(&self) -> bool {
        self.inner.waits()
    }

    fn batch_call(&self) -> Option<BatchCall<'_, ()>> {
        let call = self.inner.batch_call()?;
        Some(Box::new(move |records, parts: BatchParts<()>| {
            call(records, parts.with_state(self.state.clone()))
        }))
    }

    fn check(&self, envelope: Option<&dyn Envelope>) -> Result<(), ConfigError> {
        self.inner.check(envelope)
    }

    fn handler_type(&self) -> HandlerType {
        self.inner.handler_type()
    }

    fn effect(&self) -> Effect {
        self.inner.effect()
    }
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
    pub(crate) inner: Arc<dyn PrepareRecord<()>>,
    pub(crate) envelope: Option<Arc<dyn Envelope>>,
    pub(crate) correlate: Option<Correlate>,
    pub(crate) bodies: Option<Arc<dyn FetchBody>>,
}

impl WithEnvelope {
    /// Returns whether a preparation may have to wait.
    pub(crate) fn waits(&self) -> bool {
        self.bodies.is_some() || self.inner.waits()
    }

    pub(crate) fn prepare(
        &self,
        message: &Arc<Message>,
        with_fingerprint: bool,
    ) -> Preparing<Work<()>> {
        let opened = match &self.envelope {
            Some(envelope) => message.open(&**envelope),
            None => Ok(()),
        };
        // An envelope may contain the correlation id, which the log line of an unreadable message should have too.
        message.correlate(self.correlate.as_ref());
        match (opened, message.ignored_because()) {
            (Err(error), _) => Preparing::Ended(Err(error.into())),
            (Ok(()), Some(reason)) => {
                Preparing::Ended(Err(PrepareError::Ignored(reason.to_owned())))
            }
            (Ok(()), None) => {
                let bodies = self.bodies.as_ref();
                let Some((bodies, body)) = bodies.and_then(|it| Some((it, it.fetch(message)?)))
                else {
                    return self.inner.prepare(message, with_fingerprint);
                };
                let (inner, message) = (Arc::clone(&self.inner), Arc::clone(message));
                let future = Box::pin(async move {
                    let message = Arc::new(message.with_fetched(body.await?));
                    let mut prepared = match inner.prepare(&message, with_fingerprint) {
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
