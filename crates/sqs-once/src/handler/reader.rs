//! Reads a message's payload, key and fingerprint.

use std::sync::Arc;

use crate::guarded::caught;
use crate::key::{Fingerprint, KeyError, KeyExtractor};
use crate::record::Message;

use super::decode::{Decoder, Kind};
use super::prepared::{PrepareError, Prepared, Preparing, Waits};

/// Returns the fingerprint of a part of a payload.
pub(crate) type TakeFingerprint<T> = Arc<dyn Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync>;

/// What the fingerprint of a message covers.
pub(crate) enum Compared<T> {
    /// The whole body.
    Body,
    /// A part of the payload.
    Part(TakeFingerprint<T>),
    /// Nothing: messages have no fingerprint.
    Nothing,
}

pub(crate) struct Reader<T, K> {
    pub(crate) decoder: Decoder<T>,
    pub(crate) key: K,
    pub(crate) compared: Compared<T>,
}

impl<T: Send + 'static, K: KeyExtractor<T>> Reader<T, K> {
    /// Returns whether messages have a fingerprint.
    pub(super) fn compares(&self) -> bool {
        !matches!(self.compared, Compared::Nothing)
    }

    pub(super) fn waits(&self) -> bool {
        matches!(self.decoder.0, Kind::Waiting(_))
    }

    /// Decodes a message and extracts its key and, on request, its fingerprint.
    pub(super) fn read(
        self: &Arc<Self>,
        message: &Arc<Message>,
        with_fingerprint: bool,
    ) -> Preparing<T> {
        match &self.decoder.0 {
            Kind::AtOnce(decoder) => {
                let body = message.content();
                let body = body.ok_or_else(|| PrepareError::NoBody(message.no_body()));
                let payload = body.and_then(|body| Ok(decoder.decode(body, message)?));
                let prepared =
                    payload.and_then(|payload| self.prepared(payload, message, with_fingerprint));
                Preparing::Ended(prepared)
            }
            Kind::Waiting(decoder) => {
                let decoded = Arc::clone(decoder).start(Arc::clone(message));
                let (reader, message) = (Arc::clone(self), Arc::clone(message));
                let future = Box::pin(async move {
                    Ok(match decoded.await? {
                        Some(payload) => reader.prepared(payload, &message, with_fingerprint),
                        None => Err(PrepareError::NoBody(message.no_body())),
                    })
                });
                Preparing::Waits(Waits {
                    future,
                    memory: None,
                })
            }
        }
    }

    fn prepared(
        &self,
        payload: T,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<T>, PrepareError> {
        let key = match taken(|| self.key.key(&payload, message)) {
            Err(error) if !error.is_missing() => return Err(error.into()),
            key => key,
        };
        let fingerprint = match key {
            Ok(_) if with_fingerprint => Some(
                self.fingerprint(&payload, message)
                    .map_err(PrepareError::Fingerprint)?,
            ),
            _ => None,
        };
        Ok(Prepared {
            key,
            fingerprint,
            message: None,
            work: payload,
        })
    }

    fn fingerprint(&self, payload: &T, message: &Message) -> Result<Fingerprint, KeyError> {
        match &self.compared {
            Compared::Part(take) => taken(|| take(payload)),
            Compared::Body | Compared::Nothing => Ok(Fingerprint::from_body(
                message.content().unwrap_or_default(),
            )),
        }
    }
}

/// Calls the user's function. Leaves out the message of a panic, which may contain the key and would be logged.
fn taken<R>(take: impl FnOnce() -> Result<R, KeyError>) -> Result<R, KeyError> {
    caught(take).unwrap_or_else(|_| Err(KeyError::extractor("it panicked")))
}
