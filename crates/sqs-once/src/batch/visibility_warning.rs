//! Warns when a batch still runs shortly before SQS delivers its messages again.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::idempotency::Deadline;
use crate::record::Message;

use super::engine::Engine;

/// SQS's longest visibility timeout. A first receipt longer ago, as in an old sample event, is not of this delivery.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

/// Watches the visibility timeout of a batch's messages until the caller drops the future. Lambda deletes no message
/// before the batch is answered, so the message that was received first decides.
pub(super) async fn watch(
    engine: &Engine,
    messages: &[Arc<Message>],
    deadline: Deadline,
) -> Infallible {
    let began = Instant::now();
    let now = engine.driver().clock.now();
    let held = |message: &Message| {
        // SQS does not report when it redelivered a message.
        let received = message.first_received_at();
        let received = received.filter(|_| message.receive_count() == Some(1));
        let held = received.map(|received| now.since(received));
        held.filter(|held| *held <= LONGEST).unwrap_or_default()
    };
    let oldest = messages.iter().max_by_key(|message| held(message));
    if let Some(oldest) = oldest {
        let held = held(oldest);
        if let Some(timeout) = timeout(engine, oldest, held, deadline).await {
            sleep((timeout / 5 * 4).saturating_sub(held + began.elapsed())).await;
            warn!(
                records = messages.len(),
                message_id = oldest.id(),
                visibility_timeout_ms = timeout.as_millis() as u64,
                "the queue's visibility timeout is nearly over: it may deliver these messages again while they \
                 are worked on; make it longer, or the batches smaller"
            );
        }
    }
    pending().await
}

/// Returns the queue's visibility timeout, if known. The consumer asks the queue only during a batch that takes long.
/// Lambda refuses a visibility timeout shorter than the function's timeout, so asking after half of the function's
/// timeout is early enough.
async fn timeout(
    engine: &Engine,
    message: &Message,
    held: Duration,
    deadline: Deadline,
) -> Option<Duration> {
    let queue = engine.failed.ways_for(message).visibility.as_deref()?;
    let half = deadline.cancel_at.duration_since(Instant::now()) / 2;
    sleep(half.saturating_sub(held)).await;
    queue.timeout(message).await
}
