//! What the page's controls do to the queues and to the faults.

use super::story::Story;
use crate::dev::{FaultControls, Faults};
use crate::message::NewMessage;
use crate::queue::{self, LocalSqs, QueueError};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use uuid::Uuid;

/// What the user of a [`Page`](crate::Page) can change. By default nothing: the page only shows.
#[derive(Default)]
pub struct PageControls {
    /// The queues. The page can send a message, deliver one twice, and move the messages in the dead-letter queue back.
    pub sqs: Option<Arc<LocalSqs>>,
    /// A folder of sample events, each as [`Event::parse`](crate::Event::parse) reads it. The form that sends a message
    /// offers their messages.
    pub samples: Option<PathBuf>,
    /// The faults of a [`Poller`](crate::Poller). The page can switch each of them on and off.
    pub faults: Option<FaultControls>,
}

pub(super) struct Shared {
    pub(super) story: Story,
    pub(super) controls: PageControls,
    /// A random token that this server gives only to its own page. Each change must carry it.
    pub(super) token: String,
}

pub(super) struct Refused(pub(super) StatusCode, pub(super) String);

impl Refused {
    pub(super) fn new(status: StatusCode, reason: &str) -> Self {
        Self(status, reason.to_owned())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, reason) = self;
        (status, Json(json!({"error": reason}))).into_response()
    }
}

type Acted = Result<Json<Value>, Refused>;

#[derive(Deserialize)]
struct Duplicate {
    number: u64,
}

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/send", post(send))
        .route("/duplicate", post(duplicate))
        .route("/redrive", post(redrive))
        .route("/faults", post(faults))
}

impl From<QueueError> for Refused {
    fn from(error: QueueError) -> Self {
        Self(StatusCode::CONFLICT, error.to_string())
    }
}

impl Shared {
    fn sqs(&self) -> Result<&LocalSqs, Refused> {
        self.controls.sqs.as_deref().ok_or_else(only_shows)
    }

    fn put(&self, mut message: NewMessage) -> Acted {
        let queue = Arc::clone(&self.story.state().queue);
        if queue.ends_with(".fifo") {
            // A new deduplication id, because a FIFO queue drops a repeated one.
            let new = || Uuid::new_v4().to_string();
            message.deduplication_id.get_or_insert_with(new);
        }
        let id = message.id.clone();
        let mut queues = self.sqs()?.queues();
        let sent = queues.send(&queue, message, SystemTime::now())?;
        // A FIFO queue answers with the id of the message that this one repeats.
        Ok(Json(
            json!({"count": u32::from(sent == id), "message_id": sent}),
        ))
    }
}

fn only_shows() -> Refused {
    Refused::new(StatusCode::NOT_FOUND, "this page only shows")
}

/// Sends a message with the parameters of SQS's `SendMessage`.
async fn send(State(shared): State<Arc<Shared>>, Json(request): Json<Value>) -> Acted {
    let queue = Arc::clone(&shared.story.state().queue);
    let message = queue::message(&request, &queue);
    shared.put(message.map_err(|reason| Refused(StatusCode::CONFLICT, reason))?)
}

/// Changes the faults that the poller injects.
async fn faults(
    State(shared): State<Arc<Shared>>,
    Json(request): Json<Value>,
) -> Result<Json<Faults>, Refused> {
    let controls: &FaultControls = shared.controls.faults.as_ref().ok_or_else(only_shows)?;
    let faults = serde_json::from_value(request);
    controls.set(faults.map_err(|error| Refused(StatusCode::CONFLICT, error.to_string()))?);
    Ok(Json(controls.get()))
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
