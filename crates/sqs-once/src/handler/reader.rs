//! From a message to its payload, its key and its fingerprint.

use std::sync::Arc;

use crate::error::ConfigError;
use crate::guarded::caught;
use crate::key::{Fingerprint, KeyError, KeyExtractor};
use crate::record::{Decode, Message};

use super::prepare::{PrepareError, Prepared};

/// Takes the part of a payload that its fingerprint is made of.
type TakeFingerprint<T> = Arc<dyn Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync>;

/// How a consumer reads its messages.
pub(crate) struct Reader<T, K> {
    decoder: Arc<dyn Decode<T>>,
    key: K,
    /// None where the whole body counts.
    fingerprint: Option<TakeFingerprint<T>>,
}

impl<T, K> Reader<T, K> {
    pub(crate) fn new(decoder: Arc<dyn Decode<T>>, key: K) -> Self {
        Self {
            decoder,
            key,
            fingerprint: None,
        }
    }

    pub(crate) fn with_fingerprint<F>(mut self, take: F) -> Self
    where
        F: Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync + 'static,
    {
        self.fingerprint = Some(Arc::new(take));
        self
    }
}

impl<T: 'static, K: KeyExtractor<T>> Reader<T, K> {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.key.check()
    }

    /// Decodes a record and takes its key, and its fingerprint where that is wanted.
    pub(super) fn read(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<T>, PrepareError> {
        let body = message.content().ok_or(PrepareError::NoBody)?;
        let payload = self.decoder.decode(body, message)?;
        let key = match taken(|| self.key.key(&payload, message)) {
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
        Ok(Prepared {
            key,
            fingerprint,
            work: payload,
        })
    }

    fn fingerprint(&self, payload: &T, body: &str) -> Result<Fingerprint, KeyError> {
        match &self.fingerprint {
            Some(take) => taken(|| take(payload)),
            None => Ok(Fingerprint::of_body(body)),
        }
    }
}

/// Calls what the user gave. What a panic said is left out: it may hold the key, and this is logged.
fn taken<R>(take: impl FnOnce() -> Result<R, KeyError>) -> Result<R, KeyError> {
    caught(take).unwrap_or_else(|_| Err(KeyError::Extractor("it panicked".to_owned())))
}
