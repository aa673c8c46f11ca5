//! Requests to the store that start at once.

use std::future::{Future, ready};

use futures_util::future::{BoxFuture, FutureExt};

/// Starts a request at once, so that it is in flight while the next one is built. The caller polls it to its end and is
/// woken from then on.
pub(super) fn started<'a, T: Send + 'a>(
    request: impl Future<Output = T> + Send + 'a,
) -> BoxFuture<'a, T> {
    let mut request = request.boxed();
    match (&mut request).now_or_never() {
        Some(answer) => ready(answer).boxed(),
        None => request,
    }
}
