//! What the output of the macros calls, as `sqs_once::__private`. Any release may change it.

use std::sync::Arc;

use crate::handler::{BatchHandler, Bound, Handler, WholeBatch};
use crate::key::{Fingerprint, KeyError, KeyExtractor};

use super::builder::{Consumer, Keyed, Ready, ready};
use super::declared::Declared;

/// Takes the place of `#[handler]`: the namespace follows from it where nothing else names one.
#[must_use]
pub fn declared<Phase>(
    consumer: Consumer<Phase>,
    package: &str,
    binary: Option<&str>,
    module: &str,
    path: &str,
    name: &str,
) -> Consumer<Phase> {
    let declared = Declared {
        package,
        binary,
        module,
        path,
        name,
    };
    consumer.set(|settings| {
        settings.idempotency.default_namespace = Some(declared.namespace());
        #[cfg(feature = "testing")]
        {
            settings.unique_namespace = declared.unique_namespace().ok();
        }
    })
}

/// Sets the fingerprint to that of a part that may borrow from its payload.
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
    H: Handler<T, S, X>,
    X: 'static,
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    consumer.into_phase(|keyed| {
        let bound = Bound::<T, K, H, X>::new(keyed.reader, handler);
        ready(Arc::new(bound))
    })
}

/// Sets a batch handler whose state comes later.
pub fn batch_handler_with_state<S, H, X, T, K>(
    consumer: Consumer<Keyed<T, K>>,
    handler: H,
) -> Consumer<Ready<S>>
where
    S: 'static,
    H: BatchHandler<T, S, X>,
    X: 'static,
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    consumer.into_phase(|keyed| {
        let bound = Bound::<T, K, H, X>::new(keyed.reader, handler);
        ready(Arc::new(WholeBatch(bound)))
    })
}
