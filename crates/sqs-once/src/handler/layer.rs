//! Layers: functions around the handler of one record.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::prepare::{CallFuture, Start};
use super::{Done, HandlerError, RecordParts};

pub(crate) type Layer = Arc<dyn Fn(RecordParts, Next) -> CallFuture<Done> + Send + Sync>;

/// The layers of a consumer, outermost first.
#[derive(Clone, Default)]
pub(crate) struct Layers(Vec<Layer>);

/// The rest of a call: the inner layers and the handler. A layer runs it, or ends the record without it: see
/// [`Consumer::layer`](crate::Consumer::layer).
#[must_use = "a layer runs the handler, unless it ends the record itself"]
pub struct Next {
    /// The inner layers, innermost first.
    layers: Vec<Layer>,
    parts: RecordParts,
    handler: Start<()>,
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

    /// Returns the call of a handler inside the layers.
    pub(crate) fn around(&self, handler: Start<()>) -> Start<()> {
        if self.is_empty() {
            return handler;
        }
        let layers = self.0.iter().rev().cloned().collect();
        Box::new(move |parts| {
            let call = Call::default();
            let next = Next {
                layers,
                parts,
                handler: call.clone().of(handler),
            };
            Box::pin(async move { call.check(next.run().await?) })
        })
    }
}

const LOST_WRITES: &str =
    "a layer dropped the handler's writes: it must return what `next.run()` returned";
const OF_ANOTHER: &str = "a layer returned the success of another call: it must return what this message's `next.run()` \
    returned";

/// The identity of one call of a handler inside layers, and whether the call returned writes.
#[derive(Clone, Default)]
pub(super) struct Call(Arc<AtomicBool>);

impl Call {
    /// Marks the success of `handler` as this call's.
    fn of(self, handler: Start<()>) -> Start<()> {
        Box::new(move |parts| {
            let running = handler(parts);
            Box::pin(async move {
                let mut done = self.check(running.await?)?;
                self.0.store(done.writes.is_some(), Ordering::Relaxed);
                done.call = Some(self);
                Ok(done)
            })
        })
    }

    /// Refuses a success with which the record would complete without its effect, or with another message's.
    fn check(&self, done: Done) -> Result<Done, HandlerError> {
        match &done.call {
            Some(call) if !Arc::ptr_eq(&call.0, &self.0) => Err(HandlerError::retry(OF_ANOTHER)),
            None if self.0.load(Ordering::Relaxed) => Err(HandlerError::retry(LOST_WRITES)),
            _ => Ok(done),
        }
    }
}

impl Next {
    /// Calls the inner layers and the handler. Returns the handler's outcome: its success, with what it recorded, or its
    /// error.
    ///
    /// # Errors
    /// The error of the handler or of an inner layer.
    pub async fn run(self) -> Result<Done, HandlerError> {
        self.start().await
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
