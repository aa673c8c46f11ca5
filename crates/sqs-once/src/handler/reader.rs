//! Reads a message's payload, key and fingerprint.

use std::sync::Arc;

use crate::error::ConfigError;
use crate::guarded::caught;
use crate::key::{Fingerprint, KeyError, KeyExtractor};
use crate::record::{Decode, Envelope, Message, Needed};

use super::prepare::{PrepareError, Prepared};

/// Returns the part of a payload that its fingerprint covers.
pub(crate) type TakeFingerprint<T> = Arc<dyn Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync>;

pub(crate) struct Reader<T, K> {
    pub(crate) decoder: Arc<dyn Decode<T>>,
    pub(crate) key: K,
    /// `None` if the fingerprint covers the whole body.
    pub(crate) fingerprint: Option<TakeFingerprint<T>>,
}

impl<T: 'static, K: KeyExtractor<T>> Reader<T, K> {
    pub(super) fn check(&self, envelope: Option<&dyn Envelope>) -> Result<(), ConfigError> {
        self.key.check()?;
        Needed::check_all(self.key.needs(), envelope)
    }

    /// Decodes a record and extracts its key and, on request, its fingerprint.
    pub(super) fn read(
        &self,
        message: &Message,
        with_fingerprint: bool,
    ) -> Result<Prepared<T>, PrepareError> {
        let body = message.content().ok_or(PrepareError::NoBody)?;
        let payload = self.decoder.decode(body, message)?;
        let key = match taken(|| self.key.key(&payload, message)) {
            Err(error) if !error.is_missing() => return Err(error.into()),
            key => key,
        };
        let fingerprint = match key {
            Ok(_) if with_fingerprint => Some(
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
            None => Ok(Fingerprint::from_body(body)),
        }
    }
}

/// Calls the user's function. Leaves out the message of a panic, which may contain the key and would be logged.
fn taken<R>(take: impl FnOnce() -> Result<R, KeyError>) -> Result<R, KeyError> {
    caught(take).unwrap_or_else(|_| Err(KeyError::Extractor("it panicked".to_owned())))
}
