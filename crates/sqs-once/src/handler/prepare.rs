//! A handler with its payload and state types erased: what a batch works with.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::key::{BusinessKey, Fingerprint, KeyError};
use crate::record::{BodyError, KeyExtractor, Message, decode_json};

use super::prepare_batch::BatchCall;
use super::{BatchParts, Done, Handler, HandlerError, RecordParts};

pub(crate) type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>;
pub(crate) type HandlerFuture = CallFuture<Done>;

/// Calls the handler with the payload that was decoded for it.
pub(crate) type Start<S> = Box<dyn FnOnce(RecordParts<S>) -> HandlerFuture + Send>;

/// A payload of a type that only its handler knows.
pub(crate) type Payload = Box<dyn Any + Send>;

/// What there is to do for a record.
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
    /// The payload, and then what is to be done with it.
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

/// Why a record can never be handled.
#[derive(Debug, Error)]
pub(crate) enum PrepareError {
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the payload has no usable fingerprint: {0}")]
    Fingerprint(KeyError),
    #[error("the payload type or the state panicked")]
    Panic,
}

/// Decodes records and starts the handler on them.
pub(crate) trait PrepareRecord<S>: Send + Sync {
    /// Decodes a record and takes its key, and its fingerprint where that is wanted.
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<Work<S>>, PrepareError>;

    /// The one call for all records of a batch, of a handler that takes them together.
    fn batch_call(&self) -> Option<BatchCall<'_, S>> {
        None
    }
}

/// Takes the part of a payload that its fingerprint is made of.
pub(crate) type TakeFingerprint<T> = Arc<dyn Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync>;

/// A handler bound to its payload type and its key.
pub(crate) struct Bound<T, K, H, X> {
    key: K,
    /// None where the whole body counts.
    fingerprint: Option<TakeFingerprint<T>>,
    pub(super) handler: H,
    types: PhantomData<fn(X)>,
}

impl<T, K, H, X> Bound<T, K, H, X> {
    pub(crate) fn new(key: K, fingerprint: Option<TakeFingerprint<T>>, handler: H) -> Self {
        Self {
            key,
            fingerprint,
            handler,
            types: PhantomData,
        }
    }

    fn fingerprint(&self, payload: &T, message: &Message) -> Result<Option<Fingerprint>, KeyError> {
        let Some(take) = &self.fingerprint else {
            return Ok(message.body().map(Fingerprint::of_body));
        };
        caught(|| take(payload)).map(Some)
    }
}

/// Calls what the user gave. What a panic said is left out: it may hold the key, and this is logged.
fn caught<R>(take: impl FnOnce() -> Result<R, KeyError>) -> Result<R, KeyError> {
    catch_unwind(AssertUnwindSafe(take))
        .unwrap_or_else(|_| Err(KeyError::Extractor("it panicked".to_owned())))
}

impl<T, K, H, X> Bound<T, K, H, X>
where
    T: DeserializeOwned,
    K: KeyExtractor<T>,
{
    /// Decodes a record and takes its key.
    pub(super) fn read(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<T>, PrepareError> {
        let payload: T = decode_json(message)?;
        let key = match caught(|| self.key.key(&payload, message)) {
            Err(KeyError::Missing) => None,
            key => Some(key?),
        };
        let fingerprint = match key {
            Some(_) if with_fingerprint => self
                .fingerprint(&payload, message)
                .map_err(PrepareError::Fingerprint)?,
            _ => None,
        };
        Ok(Prepared {
            key,
            fingerprint,
            work: payload,
        })
    }
}

impl<T, K, S, H, X> PrepareRecord<S> for Bound<T, K, H, X>
where
    T: DeserializeOwned + Send + 'static,
    K: KeyExtractor<T>,
    H: Handler<T, S, X>,
{
    fn prepare(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<Work<S>>, PrepareError> {
        let read = self.read(message, with_fingerprint)?;
        let handler = self.handler.clone();
        Ok(read.map(|payload| {
            Work::Call(Box::new(move |parts| {
                Box::pin(handler.call(payload, parts))
            }))
        }))
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
}
