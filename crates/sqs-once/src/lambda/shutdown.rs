//! Graceful shutdown: the events at hand are answered before the process ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use lambda_runtime::tower::Layer;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tower_service::Service;
use tracing::{info, warn};

/// Counts the events at hand, their answers included.
#[derive(Clone)]
pub(super) struct Shutdown {
    at_hand: watch::Sender<usize>,
    is_requested: Arc<AtomicBool>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            at_hand: watch::Sender::new(0),
            is_requested: Arc::default(),
        }
    }
}

impl Shutdown {
    /// Goes around the whole runtime, so that an event counts until its answer was sent.
    pub(super) fn layer(&self) -> Self {
        self.clone()
    }

    /// Ends when the process was asked to end and no event is at hand, or was asked twice.
    pub(super) async fn requested_and_idle(&self) {
        let mut requests = match StopRequests::new() {
            Ok(requests) => requests,
            Err(error) => {
                warn!(%error, "no signal can be received: shutdown won't be graceful");
                return std::future::pending().await;
            }
        };
        requests.next().await;
        self.is_requested.store(true, Ordering::SeqCst);
        info!("asked to end: finishing the events at hand");
        let mut at_hand = self.at_hand.subscribe();
        tokio::select! {
            // Fails only when the sender is gone, and `self` holds it.
            _ = at_hand.wait_for(|count| *count == 0) => {}
            () = requests.next() => warn!("asked to end again: not waiting any longer"),
        }
    }
}

/// The signals that ask a process to end. It lives as long as any of them counts: a new one misses a signal that came
/// before it.
struct StopRequests {
    terminate: Signal,
    interrupt: Signal,
}

impl StopRequests {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

impl<S> Layer<S> for Shutdown {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            shutdown: self.clone(),
        }
    }
}

/// A service whose events are counted.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    shutdown: Shutdown,
}

impl<S, E> Service<E> for Counted<S>
where
    S: Service<E, Response: 'static, Error: 'static, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, event: E) -> Self::Future {
        if self.shutdown.is_requested.load(Ordering::SeqCst) {
            // Taken too late to be handled: SQS delivers it again. Under concurrent events there would
            // always be one more.
            return Box::pin(std::future::pending());
        }
        let guard = Guard::new(self.shutdown.at_hand.clone());
        let answer = self.inner.call(event);
        Box::pin(async move {
            let _guard = guard;
            answer.await
        })
    }
}

struct Guard(watch::Sender<usize>);

impl Guard {
    fn new(at_hand: watch::Sender<usize>) -> Self {
        at_hand.send_modify(|count| *count += 1);
        Self(at_hand)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
