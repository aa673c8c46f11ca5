//! The program's call between an answer and the next event.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::idempotency::time_left;
use crate::telemetry::AfterAnswer;
use crate::time::Timestamp;

/// The time that is left for requesting the next event.
const SPARE: Duration = Duration::from_millis(100);

/// Returns when an invocation ends, from its deadline in milliseconds since the epoch.
pub(super) fn ends_at(deadline: u64) -> Instant {
    Instant::now() + time_left(Timestamp::from_millis(deadline), Timestamp::now())
}

/// Makes the call, which may block or panic. The next event is requested in any case.
pub(super) async fn follow(call: AfterAnswer, until: Instant) {
    let left = until.duration_since(Instant::now()).saturating_sub(SPARE);
    let trouble = match timeout(left, spawn_blocking(move || call())).await {
        Ok(Ok(())) => return,
        Ok(Err(_)) => "it panicked",
        Err(_) => "it still ran shortly before the end of the invocation",
    };
    warn!(trouble, "the after_answer hook did not complete");
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
