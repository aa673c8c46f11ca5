//! Code that can't be cancelled, for simulators.

use std::future::Future;

use crate::handler;

/// What still runs of one invocation. A simulator has no threads that block: it counts tasks in their place.
#[derive(Clone, Debug, Default)]
pub struct Running(handler::Running);

impl Running {
    /// That of the handler's call that is being polled.
    pub fn current() -> Option<Self> {
        handler::Running::current().map(Self)
    }

    /// Polls an invocation as this. The consumer's service then answers while code still runs, as under
    /// [`run`](crate::run).
    pub fn scope<F: Future>(self, invocation: F) -> impl Future<Output = F::Output> {
        self.0.scope(invocation)
    }

    /// Counts code that runs until what this returns is dropped.
    pub fn enter(&self) -> impl Send + 'static + use<> {
        self.0.enter()
    }

    /// Waits until nothing runs: then the next event may come.
    pub async fn ended(&self) {
        self.0.ended().await;
    }
}
