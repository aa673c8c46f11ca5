//! A handler with its payload and state types erased: what a batch works with.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::key::{BusinessKey, KeyError};
use crate::record::{BodyError, KeyExtractor, Message, decode_json};

use super::{Handler, HandlerError, RecordParts};

type HandlerFuture = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;

/// Calls the handler with the payload that was decoded for it.
pub(crate) type Start<S> = Box<dyn FnOnce(RecordParts<S>) -> HandlerFuture + Send>;

/// A record whose payload is decoded, and whose key is known, or known to be missing.
pub(crate) struct Prepared<S> {
    pub(crate) key: Option<BusinessKey>,
    pub(crate) start: Start<S>,
}

/// Why a record can never be handled.
#[derive(Debug, Error)]
pub(crate) enum PrepareError {
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the payload type panicked while it was read")]
    DecodePanic,
}

/// Decodes records and starts the handler on them.
pub(crate) trait PrepareRecord<S>: Send + Sync {
    fn prepare(&self, message: &Message) -> Result<Prepared<S>, PrepareError>;
}

/// A handler bound to its payload type and its key.
pub(crate) struct Bound<T, K, H, X> {
    key: K,
    handler: H,
    types: PhantomData<fn(T, X)>,
}

impl<T, K, H, X> Bound<T, K, H, X> {
    pub(crate) fn new(key: K, handler: H) -> Self {
        Self {
            key,
            handler,
            types: PhantomData,
        }
    }
}

impl<T, K, S, H, X> PrepareRecord<S> for Bound<T, K, H, X>
where
    T: DeserializeOwned + Send + 'static,
    K: KeyExtractor<T>,
    H: Handler<T, S, X>,
{
    fn prepare(&self, message: &Message) -> Result<Prepared<S>, PrepareError> {
        let payload: T =
            catch_unwind(|| decode_json(message)).map_err(|_| PrepareError::DecodePanic)??;
        let key = catch_unwind(AssertUnwindSafe(|| self.key.key(&payload, message)))
            // What it said is left out: it may hold the key, and this is logged.
            .map_err(|_| KeyError::Extractor("it panicked".to_owned()))?;
        let key = match key {
            Err(KeyError::Missing) => None,
            key => Some(key?),
        };
        let handler = self.handler.clone();
        Ok(Prepared {
            key,
            start: Box::new(move |parts| Box::pin(handler.call(payload, parts))),
        })
    }
}

/// A handler that was given its state.
pub(crate) struct Stateful<S> {
    pub(crate) inner: std::sync::Arc<dyn PrepareRecord<S>>,
    pub(crate) state: S,
}

impl<S: Clone + Send + Sync + 'static> PrepareRecord<()> for Stateful<S> {
    fn prepare(&self, message: &Message) -> Result<Prepared<()>, PrepareError> {
        let Prepared { key, start } = self.inner.prepare(message)?;
        let state = self.state.clone();
        Ok(Prepared {
            key,
            start: Box::new(move |parts| start(parts.with_state(state))),
        })
    }
}

/// What a panic said, where it said it in text.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("(no message)"))
}
