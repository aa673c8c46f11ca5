//! What the program does between an answer and the next event.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lambda_runtime::LambdaInvocation;
use lambda_runtime::tower::Layer;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tower_service::Service;
use tracing::warn;

use crate::consumer::AfterAnswer;
use crate::idempotency::time_left;
use crate::time::{Clock, SystemClock, Timestamp};

/// Left of an invocation for asking for the next event.
const SPARE: Duration = Duration::from_millis(100);

/// Goes around the runtime's own services, so that the answer is out before the call.
#[derive(Clone)]
pub(super) struct Afterwards(pub(super) Option<AfterAnswer>);

impl<S> Layer<S> for Afterwards {
    type Service = Followed<S>;

    fn layer(&self, inner: S) -> Followed<S> {
        Followed {
            inner,
            call: self.0.clone(),
        }
    }
}

/// A service whose answers are followed by a call.
#[derive(Clone)]
pub(super) struct Followed<S> {
    inner: S,
    call: Option<AfterAnswer>,
}

impl<S> Service<LambdaInvocation> for Followed<S>
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
        let ends_at = Timestamp::from_millis(event.context.deadline);
        let until = Instant::now() + time_left(ends_at, SystemClock.now());
        let answer = self.inner.call(event);
        let Some(call) = self.call.clone() else {
            return Box::pin(answer);
        };
        Box::pin(async move {
            let answered = answer.await;
            follow(call, until).await;
            answered
        })
    }
}

/// The call may block, and may panic. Whatever it does, the next event comes.
async fn follow(call: AfterAnswer, until: Instant) {
    let left = until.duration_since(Instant::now()).saturating_sub(SPARE);
    let trouble = match timeout(left, spawn_blocking(move || call())).await {
        Ok(Ok(())) => return,
        Ok(Err(_)) => "it panicked",
        Err(_) => "it had not ended when the invocation was about to",
    };
    warn!(trouble, "what is to be done after each answer was not done");
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;

    use tokio::time::Instant;

    use super::follow;

    #[tokio::test]
    async fn a_call_that_does_not_end_or_panics_keeps_no_event_from_coming() {
        let (holding, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let soon = Instant::now() + Duration::from_millis(300);
        let waiting = move || {
            let _ = held.lock().map(|held| held.recv());
        };
        follow(Arc::new(waiting), soon).await;
        drop(holding);
        let in_a_minute = Instant::now() + Duration::from_secs(60);
        follow(Arc::new(|| panic!("nobody listens")), in_a_minute).await;
    }
}
