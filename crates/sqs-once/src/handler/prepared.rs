//! The preparation of a message for its handler.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use crate::key::{BusinessKey, Fingerprint, KeyError};
use crate::record::{BodyMemory, DecodeError, Message, NoBody};

use super::HandlerError;

pub(crate) type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>;

/// A message with its decoded payload and its key, or the reason why it has none.
pub(crate) struct Prepared<W> {
    pub(crate) key: Result<BusinessKey, KeyError>,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The message with the body that was fetched for it, if it was.
    pub(crate) message: Option<Arc<Message>>,
    /// The payload, and later the work on it.
    pub(crate) work: W,
}

impl<W> Prepared<W> {
    pub(super) fn map<W2>(self, change: impl FnOnce(W) -> W2) -> Prepared<W2> {
        Prepared {
            key: self.key,
            fingerprint: self.fingerprint,
            message: self.message,
            work: change(self.work),
        }
    }
}

/// Why no handler is called for a message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// The message is valid but contains no event.
    #[error("{0}")]
    Ignored(String),
    #[error(transparent)]
    Envelope(DecodeError),
    #[error(transparent)]
    NoBody(NoBody),
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
    /// Returns the error of the user's key extractor, if that failed.
    pub(crate) fn of_extractor(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Key(KeyError::Extractor(error))
            | Self::Fingerprint(KeyError::Extractor(error)) => Some(&**error),
            _ => None,
        }
    }
}

/// The preparation of a message: its result, or what has to be waited for.
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
    pub(super) fn map<W2>(self, change: impl FnOnce(W) -> W2 + Send + 'static) -> Preparing<W2> {
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
