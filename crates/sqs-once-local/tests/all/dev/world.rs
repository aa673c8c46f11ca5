//! A queue, a poller, the scripted function, and all events.

use crate::support::{LIMIT, QUEUE, scripted};
use serde_json::{Value, json};
use sqs_once_local::{
    FaultControls, Faults, Launch, LocalEvent, LocalQueue, LocalSqs, NewMessage, Observer, Poller,
    PollerControls, PollerError, PollerSettings, QueueError, QueueSettings, Queues,
};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(crate) const FIFO: &str = "orders.fifo";
/// A timeout that a test waits for.
pub(crate) const SHORT: Duration = Duration::from_millis(300);
pub(crate) const SEED: u64 = 7;

/// A body that makes the function do `step` with its batch for the first `until` deliveries.
pub(crate) fn body(step: Value, until: u32) -> String {
    json!({"step": step, "until": until}).to_string()
}

pub(crate) struct Plan {
    pub(crate) queue: &'static str,
    pub(crate) visibility: Duration,
    pub(crate) launch: Launch,
    pub(crate) settings: PollerSettings,
    pub(crate) faults: Faults,
}

impl Plan {
    pub(crate) fn new() -> Self {
        Self {
            queue: QUEUE,
            visibility: LIMIT,
            launch: scripted(),
            settings: PollerSettings::default(),
            faults: Faults {
                seed: SEED,
                ..Faults::default()
            },
        }
    }

    /// A run that ends when the queue is empty.
    pub(crate) fn until_empty() -> Self {
        Self::new().with(|plan| plan.settings.until_empty = true)
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn visibility(self, visibility: Duration) -> Self {
        Self { visibility, ..self }
    }

    pub(crate) fn batches_of(self, size: u32) -> Self {
        self.with(|plan| plan.settings.batch_size = NonZeroU32::new(size).unwrap())
    }

    pub(crate) fn at_once(self, batches: u32) -> Self {
        self.with(|plan| plan.settings.concurrency = NonZeroU32::new(batches).unwrap())
    }
}

pub(crate) struct World {
    pub(crate) sqs: LocalSqs,
    pub(crate) controls: PollerControls,
    pub(crate) faults: FaultControls,
    /// The events that the test has read so far, in their JSON form.
    pub(crate) seen: Vec<Value>,
    events: mpsc::UnboundedReceiver<Value>,
    run: JoinHandle<Result<(), PollerError<QueueError>>>,
    queue: &'static str,
}

impl World {
    /// Starts a poller on a queue with these bodies, whose messages are `m-1`, `m-2` and so on.
    pub(crate) async fn start(plan: Plan, bodies: &[impl AsRef<str>]) -> Self {
        let messages = bodies.iter().enumerate();
        let messages = messages
            .map(|(index, body)| NewMessage::new(format!("m-{}", index + 1), body.as_ref()));
        Self::with(plan, messages).await
    }

    pub(crate) async fn with(plan: Plan, messages: impl IntoIterator<Item = NewMessage>) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let observer: Observer = Arc::new(move |_, event: &LocalEvent| {
            // The receiver is gone at the end of a test.
            let _ = sender.send(json!(event));
        });
        let mut queues = Queues::default();
        queues.observe(Arc::clone(&observer));
        let settings = QueueSettings {
            visibility_timeout: plan.visibility,
            ..QueueSettings::default()
        };
        queues.create(plan.queue, settings).unwrap();
        for message in messages {
            queues.send(plan.queue, message, SystemTime::now()).unwrap();
        }
        let sqs = LocalSqs::start(queues).await.unwrap();
        let source = LocalQueue::new(&sqs, plan.queue);
        let faults = FaultControls::new(plan.faults);
        let poller = Poller::new(source, plan.launch, plan.settings)
            .observe(observer)
            .faults(faults.clone());
        Self {
            sqs,
            faults,
            controls: poller.controls(),
            seen: Vec::new(),
            events,
            run: tokio::spawn(poller.run()),
            queue: plan.queue,
        }
    }

    pub(crate) fn send(&self, id: &str, body: &str) {
        let message = NewMessage::new(id, body);
        let mut queues = self.sqs.queues();
        queues.send(self.queue, message, SystemTime::now()).unwrap();
    }

    pub(crate) fn left(&self) -> usize {
        self.sqs.queues().len(self.queue).unwrap()
    }

    /// Waits for an event of this kind that `is_wanted`.
    pub(crate) async fn until(&mut self, kind: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let limit = tokio::time::Instant::now() + LIMIT;
        loop {
            let next = tokio::time::timeout_at(limit, self.events.recv()).await;
            let Ok(Some(event)) = next else {
                panic!("it never happened; what did: {:#?}", self.seen);
            };
            self.seen.push(event.clone());
            if event["happened"] == kind && is_wanted(&event) {
                return event;
            }
        }
    }

    pub(crate) async fn until_deleted(&mut self, id: &str) {
        self.until("deleted", |event| event["message_id"] == id)
            .await;
    }

    /// Waits for an answer that fails the whole batch, and returns the reason.
    pub(crate) async fn until_failed(&mut self) -> String {
        let is_failure = |event: &Value| event["answer"]["answer"] == "failed";
        let event = self.until("answered", is_failure).await;
        event["answer"]["reason"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn until_invoked(&mut self) -> Value {
        self.until("invoked", |_| true).await["message_ids"].take()
    }

    pub(crate) async fn until_ended(&mut self) -> String {
        let event = self.until("environment_ended", |_| true).await;
        event["reason"].as_str().unwrap().to_owned()
    }

    /// Stops the poller and waits for its end. `seen` then contains all events.
    pub(crate) async fn stop(&mut self) {
        self.controls.stop();
        self.end().await.unwrap();
    }

    pub(crate) async fn end(&mut self) -> Result<(), PollerError<QueueError>> {
        let ended = tokio::time::timeout(LIMIT, &mut self.run).await;
        while let Ok(event) = self.events.try_recv() {
            self.seen.push(event);
        }
        match ended {
            Ok(ended) => ended.unwrap(),
            Err(_) => panic!("it did not end; what happened: {:#?}", self.seen),
        }
    }

    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.seen
            .iter()
            .filter(move |event| event["happened"] == kind)
    }

    /// The batches in the order in which the function received them.
    pub(crate) fn batches(&self) -> Vec<Vec<&str>> {
        self.all("invoked").map(message_ids).collect()
    }

    pub(crate) fn faults(&self) -> Vec<(&str, Vec<&str>)> {
        let fault = |event| (text(event, "what"), message_ids(event));
        self.all("fault").map(fault).collect()
    }

    pub(crate) fn deleted(&self) -> Vec<&str> {
        let deleted = self.all("deleted");
        deleted.map(|event| text(event, "message_id")).collect()
    }
}

pub(crate) fn text<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().unwrap()
}

fn message_ids(event: &Value) -> Vec<&str> {
    let ids = event["message_ids"].as_array().unwrap().iter();
    ids.map(|id| id.as_str().unwrap()).collect()
}
