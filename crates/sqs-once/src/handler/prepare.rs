//! A handler with its payload and state types erased: what a batch works with.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use thiserror::Error;

use crate::key::{BusinessKey, Fingerprint, KeyError};
use crate::record::{
    Correlate, Decode, DecodeError, Envelope, EnvelopeError, KeyExtractor, Message,
};

use super::{Done, Handler, HandlerError, RecordParts};

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<Done, HandlerError>> + Send>>;

/// Calls the handler with the payload that was decoded for it.
pub(crate) type Start<S> = Box<dyn FnOnce(RecordParts<S>) -> HandlerFuture + Send>;

/// A record whose payload is decoded, and whose key is known, or known to be missing.
pub(crate) struct Prepared<S> {
    pub(crate) key: Option<BusinessKey>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) start: Start<S>,
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

/// Decodes records and starts the handler on them.
pub(crate) trait PrepareRecord<S>: Send + Sync {
    /// Decodes a record and takes its key, and its fingerprint where that is wanted.
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<S>, PrepareError>;
}

/// Takes the part of a payload that its fingerprint is made of.
pub(crate) type TakeFingerprint<T> = Arc<dyn Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync>;

/// A handler bound to its payload type and its key.
pub(crate) struct Bound<T, K, H, X> {
    decoder: Arc<dyn Decode<T>>,
    key: K,
    /// None where the whole body counts.
    fingerprint: Option<TakeFingerprint<T>>,
    handler: H,
    types: PhantomData<fn(X)>,
}

impl<T, K, H, X> Bound<T, K, H, X> {
    pub(crate) fn new(
        decoder: Arc<dyn Decode<T>>,
        key: K,
        fingerprint: Option<TakeFingerprint<T>>,
        handler: H,
    ) -> Self {
        Self {
            decoder,
            key,
            fingerprint,
            handler,
            types: PhantomData,
        }
    }

    fn fingerprint(&self, payload: &T, body: &str) -> Result<Fingerprint, KeyError> {
        match &self.fingerprint {
            Some(take) => caught(|| take(payload)),
            None => Ok(Fingerprint::of_body(body)),
        }
    }
}

/// Calls what the user gave. What a panic said is left out: it may hold the key, and this is logged.
fn caught<R>(take: impl FnOnce() -> Result<R, KeyError>) -> Result<R, KeyError> {
    catch_unwind(AssertUnwindSafe(take))
        .unwrap_or_else(|_| Err(KeyError::Extractor("it panicked".to_owned())))
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
    ) -> Result<Prepared<S>, PrepareError> {
        let body = message.content().ok_or(PrepareError::NoBody)?;
        let payload = self.decoder.decode(body, message)?;
        let key = match caught(|| self.key.key(&payload, message)) {
            Err(KeyError::Missing) => None,
            key => Some(key?),
        };
        let fingerprint = match key {
            Some(_) if with_fingerprint => Some(
                self.fingerprint(&payload, body)
                    .map_err(PrepareError::Fingerprint)?,
            ),
            _ => None,
        };
        let handler = self.handler.clone();
        Ok(Prepared {
            key,
            fingerprint,
            start: Box::new(move |parts| Box::pin(handler.call(payload, parts))),
        })
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
    ) -> Result<Prepared<()>, PrepareError> {
        let Prepared {
            key,
            fingerprint,
            start,
        } = self.inner.prepare(message, with_fingerprint)?;
        let state = self.state.clone();
        Ok(Prepared {
            key,
            fingerprint,
            start: Box::new(move |parts| start(parts.with_state(state))),
        })
    }
}

/// What is done with a message before its handler sees it.
pub(crate) struct Opening {
    pub(crate) inner: Arc<dyn PrepareRecord<()>>,
    pub(crate) envelope: Option<Arc<dyn Envelope>>,
    pub(crate) correlate: Option<Correlate>,
}

impl PrepareRecord<()> for Opening {
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<()>, PrepareError> {
        let opened = match &self.envelope {
            Some(envelope) => message.open(&**envelope),
            None => Ok(()),
        };
        // An envelope may hold it; and what is told of one that can't be opened should have it too.
        message.correlate(self.correlate.as_ref());
        opened?;
        match message.ignored_because() {
            Some(reason) => Err(PrepareError::Ignored(reason.to_owned())),
            None => self.inner.prepare(message, with_fingerprint),
        }
    }
}
