//! The functions that macro output calls, as `sqs_once::__private`. Any release may change them.

use std::marker::PhantomData;

use crate::handler::{BatchHandlerFn, ErrorDisposition, HandlerFn};
use crate::idempotency::Mode;
use crate::key::{Fingerprint, KeyError, KeyExtractor, KeyPart};

use super::handler::{BatchHandler, Handler, Keyed};

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
pub fn fingerprint_with<T, K, F>(keyed: Keyed<T, K>, take: F) -> Keyed<T, K>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    F: Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync + 'static,
{
    keyed.fingerprint_with(take)
}

/// Returns the handler that calls `function`, with the namespace of the attribute.
pub fn handler<S, H, X, T, K>(keyed: Keyed<T, K>, state: S, namespace: &str, function: H) -> Handler
where
    S: Clone + Send + Sync + 'static,
    H: HandlerFn<T, S, X>,
    X: 'static,
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    declared(keyed.state(state).call(function), namespace)
}

/// Returns the batch handler that calls `function`, with the namespace of the attribute.
pub fn batch_handler<S, H, X, T, K>(
    keyed: Keyed<T, K>,
    state: S,
    namespace: &str,
    function: H,
) -> BatchHandler
where
    S: Clone + Send + Sync + 'static,
    H: BatchHandlerFn<T, S, X>,
    X: 'static,
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    declared(keyed.state(state).call_batch(function), namespace)
}

/// What a function returns, by its type.
#[derive(Debug)]
pub struct Returned<T>(pub PhantomData<T>);

/// Declares the type of a function's error, if it chooses what happens to the message. Method resolution finds this
/// implementation before that of [`DeclaresNothing`], which needs one more reference.
pub trait DeclaresError {
    /// Returns the handler with the declaration.
    fn declare<Kind>(&self, handler: Handler<Kind>) -> Handler<Kind>;
}

impl<T, E: ErrorDisposition> DeclaresError for Returned<Result<T, E>> {
    fn declare<Kind>(&self, handler: Handler<Kind>) -> Handler<Kind> {
        handler.errors::<E>()
    }
}

/// Leaves a handler as it is whose function returns no such error.
pub trait DeclaresNothing {
    /// Returns the handler.
    fn declare<Kind>(&self, handler: Handler<Kind>) -> Handler<Kind>;
}

impl<T> DeclaresNothing for &Returned<T> {
    fn declare<Kind>(&self, handler: Handler<Kind>) -> Handler<Kind> {
        handler
    }
}

/// Returns the mode that a handler has by its type.
pub const fn mode_of<S, H: HandlerFn<T, S, X>, X, T>(_: &H) -> Mode {
    H::MODE
}

/// Returns the mode that a batch handler has by its type.
pub const fn mode_of_batch<S, H: BatchHandlerFn<T, S, X>, X, T>(_: &H) -> Mode {
    H::MODE
}

/// Sets the namespace of the attribute.
fn declared<Kind>(handler: Handler<Kind>, namespace: &str) -> Handler<Kind> {
    handler.set(|settings| settings.keys.declared_namespace = Some(namespace.into()))
}
