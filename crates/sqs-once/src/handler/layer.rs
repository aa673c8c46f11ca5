//! Layers: functions around the handler of one message.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::prepare::Start;
use super::prepared::CallFuture;
use super::{Done, HandlerError, RecordParts};

pub(crate) type Layer = Arc<dyn Fn(RecordParts, Next) -> CallFuture<Done> + Send + Sync>;

/// Lets the handler's rules choose what an error means, so that the next layer sees it.
pub(crate) type Decide = Arc<dyn Fn(HandlerError) -> HandlerError + Send + Sync>;

/// The layers of a handler, outermost first.
#[derive(Clone, Default)]
pub(crate) struct Layers(Vec<Layer>);

/// The rest of a call: the inner layers and the handler. A layer runs it, or ends the message without it: see
/// [`Handler::layer`](crate::Handler::layer).
#[must_use = "a layer runs the handler, unless it ends the message itself"]
pub struct Next {
    /// The inner layers, innermost first.
    layers: Vec<Layer>,
    parts: RecordParts,
    handler: Start,
    call: Call,
    decide: Decide,
}

impl Layers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push<F, Fut>(&mut self, layer: F)
    where
        F: Fn(RecordParts, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Done, HandlerError>> + Send + 'static,
    {
        let layer = move |parts, next| Box::pin(layer(parts, next)) as CallFuture<Done>;
        self.0.push(Arc::new(layer));
    }

    /// Returns the layers of a route: those of its router around its own.
    pub(crate) fn within(&self, router: &Self) -> Self {
        Self(router.0.iter().chain(&self.0).cloned().collect())
    }

    /// Returns `call` of a handler inside the layers.
    pub(crate) fn around(&self, handler: Start, call: &Call, decide: Decide) -> Start {
        let handler = call.clone().of(handler, Arc::clone(&decide));
        if self.is_empty() {
            return handler;
        }
        let (layers, call) = (self.0.iter().rev().cloned().collect(), call.clone());
        Box::new(move |parts| {
            let next = Next {
                layers,
                parts,
                handler,
                call: call.clone(),
                decide,
            };
            Box::pin(async move { call.check(next.run().await?) })
        })
    }
}

const LOST_WRITES: &str =
    "a layer dropped the handler's writes: it must return what `next.run()` returned";
const OF_ANOTHER: &str = "a layer returned the success of another call: it must return what this message's `next.run()` \
    returned";

const TOO_LATE: &str = "a layer called `next.run()` after its message had ended";

/// The identity and the state of one call of a handler that layers, or a token that has expired, may end.
#[derive(Clone, Default)]
pub(crate) struct Call(Arc<AtomicU8>);

const UNCALLED: u8 = 0;
const RUNNING: u8 = 1;
/// It has failed.
const FAILED: u8 = 2;
/// It has returned writes.
const WROTE: u8 = 3;
/// Its message has ended without it.
const CLOSED: u8 = 4;
/// It has succeeded without writes, panicked, or failed with an unknown outcome.
const EFFECTED: u8 = 5;

impl Call {
    /// Ends the time for the call. Returns whether it was made. Code that a layer has started elsewhere can't make it any
    /// more.
    pub(crate) fn close(&self) -> bool {
        self.follows(UNCALLED, CLOSED).is_err()
    }

    /// Returns whether the handler has neither ended nor panicked. If its future is gone, its effect may be in flight.
    pub(crate) fn is_running(&self) -> bool {
        self.0.load(Ordering::Relaxed) == RUNNING
    }

    /// Returns whether the handler has ended, and may have had its effect.
    pub(crate) fn may_have_effect(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), EFFECTED | WROTE)
    }

    /// Notes that an inner layer may have had an effect, whatever an outer one makes of its error.
    fn leaves_unknown(&self) {
        for state in [UNCALLED, FAILED] {
            let _ = self.follows(state, EFFECTED);
        }
    }

    /// Marks the success of `handler` as this call's.
    fn of(self, handler: Start, decide: Decide) -> Start {
        Box::new(move |parts| {
            if self.follows(UNCALLED, RUNNING).is_err() {
                return Box::pin(async { Err(HandlerError::retry(TOO_LATE)) });
            }
            let mut running = {
                let _panic = Panic(&self);
                handler(parts)
            };
            Box::pin(async move {
                let result = poll_fn(|context| {
                    let _panic = Panic(&self);
                    running.as_mut().poll(context)
                });
                let result = result.await.and_then(|done| self.check(done));
                let result = {
                    let _panic = Panic(&self);
                    result.map_err(&*decide)
                };
                self.set(match &result {
                    Ok(done) if done.writes.is_some() => WROTE,
                    Err(error) if !error.is_outcome_unknown() => FAILED,
                    Ok(_) | Err(_) => EFFECTED,
                });
                let mut done = result?;
                done.call = Some(self);
                Ok(done)
            })
        })
    }

    fn set(&self, state: u8) {
        self.0.store(state, Ordering::Relaxed);
    }

    fn follows(&self, on: u8, state: u8) -> Result<u8, u8> {
        self.0
            .compare_exchange(on, state, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Refuses a success that would complete the key without its effect, or with another message's.
    fn check(&self, done: Done) -> Result<Done, HandlerError> {
        match &done.call {
            Some(call) if !Arc::ptr_eq(&call.0, &self.0) => Err(HandlerError::retry(OF_ANOTHER)),
            None if self.0.load(Ordering::Relaxed) == WROTE => {
                Err(HandlerError::retry(LOST_WRITES))
            }
            _ => Ok(done),
        }
    }
}

/// Ends a call whose handler panics, because a layer may catch the panic. If a layer panics, the handler may be in flight.
struct Panic<'a>(&'a Call);

impl Drop for Panic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set(EFFECTED);
        }
    }
}

impl Next {
    /// Calls the inner layers and the handler. Returns the handler's success, with its value and its writes, or its error.
    ///
    /// # Errors
    /// The error of the handler or of an inner layer.
    pub async fn run(self) -> Result<Done, HandlerError> {
        let (call, decide) = (self.call.clone(), Arc::clone(&self.decide));
        let result = self.start().await.map_err(&*decide);
        if result.as_ref().is_err_and(HandlerError::is_outcome_unknown) {
            call.leaves_unknown();
        }
        result
    }

    fn start(mut self) -> CallFuture<Done> {
        match self.layers.pop() {
            Some(layer) => layer(self.parts.clone(), self),
            None => (self.handler)(self.parts),
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}
