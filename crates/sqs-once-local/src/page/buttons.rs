//! What the page's buttons do to the queues.

use super::server::{Refused, Shared};
use crate::queue::{LocalSqs, NewMessage, QueueError};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;
use uuid::Uuid;

type Acted = Result<Json<Value>, Refused>;

#[derive(Deserialize)]
struct Send {
    body: String,
    group_id: Option<String>,
}

#[derive(Deserialize)]
struct Duplicate {
    number: u64,
}

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/send", post(send))
        .route("/duplicate", post(duplicate))
        .route("/redrive", post(redrive))
}

impl From<QueueError> for Refused {
    fn from(error: QueueError) -> Self {
        Self(StatusCode::CONFLICT, error.to_string())
    }
}

impl Shared {
    fn sqs(&self) -> Result<&LocalSqs, Refused> {
        let refused = || Refused::new(StatusCode::NOT_FOUND, "this page only shows");
        self.sqs.as_deref().ok_or_else(refused)
    }

    fn put(&self, mut message: NewMessage) -> Acted {
        let queue = Arc::clone(&self.story.state().queue);
        if queue.ends_with(".fifo") {
            // A new deduplication id, because a FIFO queue drops a repeated one.
            message.deduplication_id = Some(Uuid::new_v4().to_string());
        }
        let mut queues = self.sqs()?.queues();
        let id = queues.send(&queue, message, SystemTime::now())?;
        Ok(Json(json!({"count": 1, "message_id": id})))
    }
}

async fn send(State(shared): State<Arc<Shared>>, Json(send): Json<Send>) -> Acted {
    if send.body.is_empty() {
        return Err(Refused::new(StatusCode::CONFLICT, "a message needs a body"));
    }
    let mut message = NewMessage::new(Uuid::new_v4().to_string(), send.body);
    message.group_id = send.group_id.filter(|group| !group.is_empty());
    shared.put(message)
}

/// Sends a message again under the same id, which simulates that SQS delivers it twice.
async fn duplicate(
    State(shared): State<Arc<Shared>>,
    Json(Duplicate { number }): Json<Duplicate>,
) -> Acted {
    let forgotten = || Refused::new(StatusCode::CONFLICT, "the page no longer has that message");
    shared.put(shared.story.message(number).ok_or_else(forgotten)?)
}

/// Moves every visible message of the dead-letter queues back to the queue.
async fn redrive(State(shared): State<Arc<Shared>>) -> Acted {
    let to = Arc::clone(&shared.story.state().queue);
    let dead_letters = shared.story.state().dead_letters.clone();
    let mut queues = shared.sqs()?.queues();
    let mut count = 0;
    for from in dead_letters {
        let new_id = || Uuid::new_v4().to_string();
        count += queues.redrive(&from, &to, new_id, SystemTime::now())?;
    }
    Ok(Json(json!({"count": count, "message_id": null})))
}
