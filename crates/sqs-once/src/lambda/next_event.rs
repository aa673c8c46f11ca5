//! What happens between an answer and the request for the next event.

use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};

use lambda_runtime::LambdaInvocation;
use tower_service::Service;

use crate::batch::watchdog;
use crate::handler::Running;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::AfterAnswer;

#[cfg(feature = "opentelemetry")]
use super::after_answer::{ends_at, follow};
use super::shutdown::Shutdown;

/// Keeps the runtime from asking for the next event while code of a handler still runs, or if the watchdog ends the
/// process soon.
///
/// Wraps the runtime's own services, so that the answer is sent before it waits.
#[derive(Clone)]
pub(super) struct NextEvent<S> {
    pub(super) inner: S,
    pub(super) shutdown: Shutdown,
    #[cfg(feature = "opentelemetry")]
    pub(super) after_answer: Option<AfterAnswer>,
}

impl<S> Service<LambdaInvocation> for NextEvent<S>
where
    S: Service<
            LambdaInvocation,
            Response: Send + 'static,
            Error: Send + 'static,
            Future: Send + 'static,
        >,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, event: LambdaInvocation) -> Self::Future {
        let Some(in_flight) = self.shutdown.begin() else {
            // The event arrived after the signal and is not handled: SQS delivers it again. Otherwise, concurrent
            // events could delay the shutdown forever.
            return Box::pin(pending());
        };
        #[cfg(feature = "opentelemetry")]
        let after_answer = self
            .after_answer
            .clone()
            .map(|call| (call, ends_at(event.context.deadline)));
        let Some(unanswered) = watchdog::invoked() else {
            return Box::pin(pending());
        };
        let running = Running::default();
        let answer = running.clone().scope(self.inner.call(event));
        Box::pin(async move {
            let answered = answer.await;
            drop(unanswered);
            #[cfg(feature = "opentelemetry")]
            if let Some((call, until)) = after_answer {
                follow(call, until).await;
            }
            running.ended().await;
            drop(in_flight);
            if watchdog::is_draining() {
                pending::<()>().await;
            }
            answered
        })
    }
}
