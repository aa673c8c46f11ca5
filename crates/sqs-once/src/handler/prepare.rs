//! A handler with its payload and state types erased: what a batch works with.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use thiserror::Error;

use crate::error::ConfigError;
use crate::idempotency::Effect;
use crate::key::{BusinessKey, Fingerprint, KeyError, KeyExtractor};
use crate::record::{Correlate, DecodeError, Envelope, EnvelopeError, Message};

use super::prepare_batch::BatchCall;
use super::reader::Reader;
use super::{BatchParts, Done, Handler, HandlerError, HandlerType, RecordParts};

pub(crate) type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>;
pub(crate) type HandlerFuture = CallFuture<Done>;

/// Calls the handler with the payload that was decoded for it.
pub(crate) type Start<S> = Box<dyn FnOnce(RecordParts<S>) -> HandlerFuture + Send>;

/// A payload of a type that only its handler knows.
pub(crate) type Payload = Box<dyn Any + Send>;

/// The work for a record.
pub(crate) enum Work<S> {
    /// A call of its own.
    Call(Start<S>),
    /// To take part in the one call of a batch handler.
    Join(Payload),
}

/// A record whose payload is decoded, and whose key is known, or known to be missing.
pub(crate) struct Prepared<W> {
    pub(crate) key: Option<BusinessKey>,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The payload, and later the work on it.
    pub(crate) work: W,
}

impl<W> Prepared<W> {
    pub(super) fn map<W2>(self, change: impl FnOnce(W) -> W2) -> Prepared<W2> {
        Prepared {
            key: self.key,
            fingerprint: self.fingerprint,
            work: change(self.work),
        }
    }
}

/// Why a record is not handled, ever.
#[derive(Debug, Error)]
pub(crate) enum PrepareError {
    /// There is nothing wrong with it, and no event in it.
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

impl PrepareError {
    /// Whether the message can't be read, which is not so of one that merely lacks its key.
    pub(crate) fn is_undecodable(&self) -> bool {
        !matches!(self, Self::Ignored(_) | Self::Key(KeyError::Missing))
    }
}

/// Decodes records and starts the handler on them.
pub(crate) trait PrepareRecord<S>: Send + Sync {
    /// Decodes a record and takes its key, and its fingerprint where that is wanted.
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<Work<S>>, PrepareError>;

    /// Checks the settings of what reads the records.
    fn check(&self) -> Result<(), ConfigError>;

    /// Which handler it is.
    fn handler_type(&self) -> HandlerType;

    /// The one call for all records of a batch, of a handler that takes them together.
    fn batch_call(&self) -> Option<BatchCall<'_, S>> {
        None
    }

    /// How the handler's effect commits.
    fn effect(&self) -> Effect {
        Effect::APART
    }
}

/// A handler bound to how its records are read.
pub(crate) struct Bound<T, K, H, X> {
    pub(super) reader: Reader<T, K>,
    pub(super) handler: H,
    types: PhantomData<fn(X)>,
}

impl<T, K, H, X> Bound<T, K, H, X> {
    pub(crate) fn new(reader: Reader<T, K>, handler: H) -> Self {
        Self {
            reader,
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
{
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<Work<S>>, PrepareError> {
        let read = self.reader.read(message, with_fingerprint)?;
        let handler = self.handler.clone();
        Ok(read.map(|payload| {
            Work::Call(Box::new(move |parts| {
                Box::pin(handler.call(payload, parts))
            }))
        }))
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.reader.check()
    }

    fn handler_type(&self) -> HandlerType {
        HandlerType::of::<H>()
    }

    fn effect(&self) -> Effect {
        H::EFFECT
    }
}

/// A handler that was given its state.
pub(crate) struct Stateful<S> {
    pub(crate) inner: Arc<dyn PrepareRecord<S>>,
    pub(crate) state: S,
}

impl<S: Clone + Send + Sync + 'static> PrepareRecord<()> for Stateful<S> {
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<Work<()>>, PrepareError> {
        let prepared = self.inner.prepare(message, with_fingerprint)?;
        Ok(prepared.map(|work| match work {
            Work::Call(start) => {
                let state = self.state.clone();
                Work::Call(Box::new(move |parts| start(parts.with_state(state))))
            }
            Work::Join(payload) => Work::Join(payload),
        }))
    }

    fn batch_call(&self) -> Option<BatchCall<'_, ()>> {
        let call = self.inner.batch_call()?;
        Some(Box::new(move |records, parts: BatchParts<()>| {
            call(records, parts.with_state(self.state.clone()))
        }))
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.inner.check()
    }

    fn handler_type(&self) -> HandlerType {
        self.inner.handler_type()
    }

    fn effect(&self) -> Effect {
        self.inner.effect()
    }
}

/// Opens a message's envelope before its handler gets it.
pub(crate) struct WithEnvelope {
    pub(crate) inner: Arc<dyn PrepareRecord<()>>,
    pub(crate) envelope: Option<Arc<dyn Envelope>>,
    pub(crate) correlate: Option<Correlate>,
}

impl PrepareRecord<()> for WithEnvelope {
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<Work<()>>, PrepareError> {
        let opened = match &self.envelope {
            Some(envelope) => message.open(&**envelope),
            None => Ok(()),
        };
        // An envelope may contain the id, and the log line of an unreadable one should have it too.
        message.correlate(self.correlate.as_ref());
        opened?;
        match message.ignored_because() {
            Some(reason) => Err(PrepareError::Ignored(reason.to_owned())),
            None => self.inner.prepare(message, with_fingerprint),
        }
    }

    fn batch_call(&self) -> Option<BatchCall<'_, ()>> {
        self.inner.batch_call()
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.inner.check()
    }

    fn handler_type(&self) -> HandlerType {
        self.inner.handler_type()
    }

    fn effect(&self) -> Effect {
        self.inner.effect()
    }
}
