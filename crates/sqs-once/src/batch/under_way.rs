//! Requests under way to the store.

use std::future::{Future, ready};

use futures_util::future::{BoxFuture, FutureExt};

/// A request that is sent at once, so that it is under way while the next one is put together. Whoever
/// takes it polls it again, and is woken from then on.
pub(super) fn begun<'a, T: Send + 'a>(
    request: impl Future<Output = T> + Send + 'a,
) -> BoxFuture<'a, T> {
    let mut request = request.boxed();
    match (&mut request).now_or_never() {
        Some(answer) => ready(answer).boxed(),
        None => request,
    }
}
