//! Code that can't be cancelled, for simulators.

use crate::handler;

/// The code of one invocation that still runs. A simulator has no blocking threads and counts tasks instead.
#[derive(Clone, Debug, Default)]
pub struct Running(handler::Running);

impl Running {
    /// Returns the value of the handler call that is being polled.
    pub fn current() -> Option<Self> {
        handler::Running::current().map(Self)
    }

    /// Polls an invocation within this scope. The consumer's service then answers while code still runs, as under
    /// [`run`](crate::run).
    pub fn scope<F: Future>(self, invocation: F) -> impl Future<Output = F::Output> {
        self.0.scope(invocation)
    }

    /// Counts code as running until the returned guard is dropped.
    pub fn enter(&self) -> impl Send + 'static + use<> {
        self.0.enter()
    }

    /// Waits until no code runs, so that the next event may be requested.
    pub async fn ended(&self) {
        self.0.ended().await;
    }
}
