//! Lambda's event source mapping: it turns messages into an event, and applies the function's answer.

use super::endpoint::LocalSqs;
use super::error::QueueError;
use super::queues::Queues;
use crate::event::{Event, from_sqs_api};
use crate::lock;
use crate::message::{Received, arn, object, queue_name};
use crate::response::{BatchResponse, ResponseError};
use axum::body::Bytes;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Polls a queue for a function, with `ReportBatchItemFailures`.
///
/// If Lambda can read the answer, the mapping deletes every message of the batch that the answer does not report. A
/// reported message stays invisible until its visibility timeout ends. So does the whole batch if the answer is
/// missing or Lambda can't read it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use sqs_once_local::{EventSourceMapping, Launch, LocalSqs, NewMessage, QueueSettings, Queues};
/// use std::time::{Duration, SystemTime};
///
/// let mut queues = Queues::default();
/// queues.create("orders", QueueSettings::default())?;
/// queues.send("orders", NewMessage::new("m-1", r#"{"order_id": "o-1"}"#), SystemTime::now())?;
/// let sqs = LocalSqs::start(queues).await?;
///
/// let function = Launch::new("target/debug/orders")
///     .env("AWS_ENDPOINT_URL_SQS", sqs.endpoint())
///     .start()
///     .await?;
/// let mapping = EventSourceMapping::new(&sqs, "orders", 10);
/// while let Some(batch) = mapping.poll(SystemTime::now())? {
///     let answer = function.invoke(batch.event(), Duration::from_secs(30)).await?;
///     mapping.settle(batch, &answer, SystemTime::now())?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EventSourceMapping {
    queues: Arc<Mutex<Queues>>,
    queue: String,
    batch_size: usize,
}

/// A batch of received messages.
#[derive(Debug)]
pub struct Batch {
    messages: Vec<Received>,
    event: Bytes,
}

/// How an answer was applied to a batch.
#[derive(Debug)]
pub struct Settled {
    /// The messages that were acknowledged and deleted.
    pub deleted: Vec<Received>,
    /// Messages that the function acknowledged too late. They had become visible by then, and will be delivered again.
    pub not_deleted: Vec<Received>,
    /// Messages that return when their visibility timeout ends.
    pub returned: Vec<Received>,
    /// Why the whole batch returns, if the answer can't be read.
    pub refused: Option<ResponseError>,
}

impl EventSourceMapping {
    /// Creates a mapping from a queue of `sqs`, for batches of up to `batch_size` messages.
    pub fn new(sqs: &LocalSqs, queue: impl Into<String>, batch_size: usize) -> Self {
        Self {
            queues: sqs.shared(),
            queue: queue.into(),
            batch_size,
        }
    }

    /// Receives a batch. Returns `None` if no message is visible.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`], as for [`settle`](Self::settle).
    pub fn poll(&self, now: SystemTime) -> Result<Option<Batch>, QueueError> {
        let messages = lock(&self.queues).receive(&self.queue, self.batch_size, now)?;
        if messages.is_empty() {
            return Ok(None);
        }
        let event = event(&messages, &arn(&self.queue));
        Ok(Some(Batch { messages, event }))
    }

    /// Applies the function's answer to the messages of a batch.
    pub fn settle(
        &self,
        batch: Batch,
        answer: &[u8],
        now: SystemTime,
    ) -> Result<Settled, QueueError> {
        let ids = batch.messages.iter().map(|one| one.message.id.clone());
        let ids: Vec<_> = ids.collect();
        let mut settled = Settled {
            deleted: Vec::new(),
            not_deleted: Vec::new(),
            returned: Vec::new(),
            refused: None,
        };
        let response = match BatchResponse::parse(answer, &ids) {
            Ok(response) => response,
            Err(error) => {
                settled.returned = batch.messages;
                settled.refused = Some(error);
                return Ok(settled);
            }
        };
        let mut queues = lock(&self.queues);
        for received in batch.messages {
            if response.failures().contains(&received.message.id) {
                settled.returned.push(received);
                continue;
            }
            match queues.delete(&self.queue, &received.receipt_handle, now) {
                Ok(true) => settled.deleted.push(received),
                Ok(false) | Err(QueueError::Expired) => settled.not_deleted.push(received),
                Err(error) => return Err(error),
            }
        }
        Ok(settled)
    }
}

impl Batch {
    /// The messages, in the event's order.
    pub fn messages(&self) -> &[Received] {
        &self.messages
    }

    /// The event as Lambda sends it.
    pub fn event(&self) -> Bytes {
        self.event.clone()
    }
}

/// Builds the event for messages received from the queue with this ARN.
pub(crate) fn event(messages: &[Received], queue_arn: &str) -> Bytes {
    let records = messages.iter().map(|one| record(one, queue_arn));
    Event::new(records, queue_name(queue_arn)).payload()
}

fn record(received: &Received, queue_arn: &str) -> Map<String, Value> {
    let message = &received.message;
    let mut attributes = received.system_attributes();
    if let Some(source) = &received.dead_letter_source {
        // SQS moves messages only between queues of one account and region.
        let place = queue_arn.strip_suffix(queue_name(queue_arn));
        let source = format!("{}{source}", place.unwrap_or_default());
        attributes.insert("DeadLetterQueueSourceArn".to_owned(), source.into());
    }
    from_sqs_api(object(json!({
        "MessageId": message.id,
        "ReceiptHandle": received.receipt_handle,
        "Body": message.body,
        "Attributes": attributes,
        "MessageAttributes": message.attributes,
        "eventSourceARN": queue_arn,
        "awsRegion": queue_arn.split(':').nth(3),
    })))
}
