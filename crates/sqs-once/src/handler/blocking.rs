//! Blocking work of handlers, and a count of work that still runs.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::task::{JoinHandle, spawn_blocking as tokio_spawn_blocking};
use tokio::task_local;

task_local! {
    /// The call of a handler whose code is being polled.
    static CURRENT: Running;
}

/// Runs blocking code of a handler on a thread where it may block: [`tokio::task::spawn_blocking`], for handlers.
///
/// Unlike Tokio's function, this one lets the consumer track the code:
///
/// - The message's handler ends when its future has ended *and* this code has. Until then its key is not released.
/// - At the deadline the message fails and the batch is answered, although the code goes on. The consumer then asks
///   Lambda for no further event until the code has ended. Lambda may end the execution environment at the function's
///   timeout. If it does not, the consumer renews the lease of the key, for 15 minutes at most. If the lease can't be kept,
///   [`run`](crate::run) ends the process. So no other worker runs the key beside this code.
///
/// Code that ends by itself before the deadline keeps the environment warm. Give it a timeout of at most
/// [`Remaining`](crate::extract::Remaining).
///
/// Call it from the handler's own task, or from code that it started. In a task of `tokio::spawn`, and outside a
/// handler, it acts like Tokio's function, and the consumer does not track the code.
///
/// # Panics
/// Panics outside a Tokio runtime, like Tokio's function.
///
/// ```
/// use sqs_once::HandlerError;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "archive")]
/// async fn archive(order: OrderPlaced) -> Result<(), HandlerError> {
///     // One `?` for a panic, one for the error of the write.
///     sqs_once::spawn_blocking(move || std::fs::write("/tmp/last-order", order.order_id)).await??;
///     Ok(())
/// }
/// ```
#[must_use = "without `.await??`, an error or a panic of the code is lost, and the message counts as done"]
pub fn spawn_blocking<F, R>(work: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let Ok(running) = CURRENT.try_with(Running::clone) else {
        return tokio_spawn_blocking(work);
    };
    let guard = running.enter();
    tokio_spawn_blocking(move || {
        // Dropped before the caller gets the result, and also on a panic.
        let _guard = guard;
        CURRENT.sync_scope(running, work)
    })
}

/// Counts the running work of one invocation, or of one handler call within it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    count: AtomicUsize,
    waiter: AtomicWaker,
    /// Whether the future of a handler is being polled, and may block its thread.
    is_polled: AtomicBool,
    within: Option<Running>,
}

impl Running {
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Returns a counter for a part of this work, which counts for the whole too.
    pub(crate) fn part(&self) -> Self {
        Self(Arc::new(Counter {
            within: Some(self.clone()),
            ..Counter::default()
        }))
    }

    pub(crate) fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// Adds one to the count until the guard is dropped.
    pub(crate) fn enter(&self) -> RunningGuard {
        let mut running = Some(self);
        while let Some(Self(counter)) = running {
            counter.count.fetch_add(1, Ordering::SeqCst);
            running = counter.within.as_ref();
        }
        RunningGuard(self.clone())
    }

    /// Notes that the handler is polled until the guard is dropped.
    pub(crate) fn polled(&self) -> Polled {
        self.0.is_polled.store(true, Ordering::SeqCst);
        Polled(self.clone())
    }

    /// Returns whether the handler's own task executes, or code that it started.
    pub(crate) fn executes(&self) -> bool {
        self.count() > 0 || self.0.is_polled.load(Ordering::SeqCst)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.count.load(Ordering::SeqCst)
    }

    /// Returns ready when no work runs. Only one task may wait at a time.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        if self.count() > 0 {
            self.0.waiter.register(context.waker());
        }
        match self.count() {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    pub(crate) async fn ended(&self) {
        poll_fn(|context| self.poll_ended(context)).await;
    }
}

pub(crate) struct Polled(Running);

impl Drop for Polled {
    fn drop(&mut self) {
        self.0.0.is_polled.store(false, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(crate) struct RunningGuard(Running);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let mut running = Some(&self.0);
        while let Some(Running(counter)) = running {
            if counter.count.fetch_sub(1, Ordering::SeqCst) == 1 {
                counter.waiter.wake();
            }
            running = counter.within.as_ref();
        }
    }
}
