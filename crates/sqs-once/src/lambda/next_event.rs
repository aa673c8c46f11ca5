//! The request for the next event waits for code that still runs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use lambda_runtime::tower::Layer;
use tower_service::Service;

use crate::handler::Running;

/// Keeps the runtime from asking for the next event while code of a handler still runs. Lambda then ends the execution
/// environment at the function's timeout, before the leases of the invocation lapse.
///
/// It goes around the runtime's own services, so that the answer is out before it waits.
#[derive(Clone)]
pub(super) struct NextEvent;

impl<S> Layer<S> for NextEvent {
    type Service = Delayed<S>;

    fn layer(&self, inner: S) -> Delayed<S> {
        Delayed(inner)
    }
}

/// A service whose calls end when the next event may come.
#[derive(Clone)]
pub(super) struct Delayed<S>(S);

impl<S, E> Service<E> for Delayed<S>
where
    S: Service<E, Response: Send + 'static, Error: Send + 'static, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, event: E) -> Self::Future {
        let running = Running::default();
        let answer = running.clone().scope(self.0.call(event));
        Box::pin(async move {
            let answered = answer.await;
            running.ended().await;
            answered
        })
    }
}
