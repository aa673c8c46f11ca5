//! The functions that macro output calls, as `sqs_once::__private`. Any release may change them.

use crate::handler::{BatchHandler, Handler, erase, erase_batch};
use crate::key::{Fingerprint, KeyError, KeyExtractor, KeyPart};

use super::builder::{Consumer, Keyed, Ready, ready};

/// Sets the namespace of the attribute.
#[must_use]
pub fn declared<Phase>(consumer: Consumer<Phase>, namespace: &str) -> Consumer<Phase> {
    consumer.set_shared(|settings| settings.declared_namespace = Some(namespace.into()))
}

/// Returns the fingerprint of the part that an attribute's `expression` takes from a payload.
///
/// # Errors
/// The error of [`Fingerprint::new`].
pub fn fingerprint<P: KeyPart + ?Sized>(
    expression: &str,
    part: &P,
) -> Result<Fingerprint, KeyError> {
    Fingerprint::declared(expression, part)
}

/// Sets the fingerprint to a part that may borrow from its payload.
#[must_use]
pub fn fingerprint_with<T, K, F>(consumer: Consumer<Keyed<T, K>>, take: F) -> Consumer<Keyed<T, K>>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    F: Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync + 'static,
{
    consumer.fingerprint_with(take)
}

/// Sets a handler whose state comes later.
pub fn handler_with_state<S, H, X, T, K>(
    consumer: Consumer<Keyed<T, K>>,
    handler: H,
) -> Consumer<Ready<S>>
where
    S: Clone + Send + Sync + 'static,
    H: Handler<T, S, X>,
    X: 'static,
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    consumer.into_phase(|keyed| ready(erase(keyed.reader, handler)))
}

/// Sets a batch handler whose state comes later.
pub fn batch_handler_with_state<S, H, X, T, K>(
    consumer: Consumer<Keyed<T, K>>,
    handler: H,
) -> Consumer<Ready<S>>
where
    S: Clone + Send + Sync + 'static,
    H: BatchHandler<T, S, X>,
    X: 'static,
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    consumer.into_phase(|keyed| ready(erase_batch(keyed.reader, handler)))
}
