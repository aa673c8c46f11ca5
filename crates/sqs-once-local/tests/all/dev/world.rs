//! A queue, a poller, the scripted function, and all events.

use serde_json::{Value, json};
use sqs_once_local::{
    Answer, Faults, Launch, LocalEvent, LocalQueue, LocalSqs, NewMessage, Observer, Poller,
    PollerControls, PollerError, PollerSettings, QueueError, QueueSettings, Queues, Redrive,
};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(crate) const QUEUE: &str = "orders";
pub(crate) const FIFO: &str = "orders.fifo";
pub(crate) const DEAD: &str = "dead";
/// A timeout that a test waits for.
pub(crate) const SHORT: Duration = Duration::from_millis(300);
/// Longer than any step takes.
const LIMIT: Duration = Duration::from_secs(60);

/// The example `scripted`, which cargo builds along with the tests.
pub(crate) fn scripted() -> Launch {
    let test = std::env::current_exe().unwrap();
    let profile: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
    // A busy machine starts processes slowly.
    Launch::new(profile.join("examples/scripted")).init_limit(LIMIT)
}

pub(crate) fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// A body that makes the function do `step` with its batch for the first `until` deliveries.
pub(crate) fn body(step: Value, until: u32) -> String {
    json!({"step": step, "until": until}).to_string()
}

/// The settings of a test.
pub(crate) struct Plan {
    pub(crate) queue: &'static str,
    pub(crate) visibility: Duration,
    pub(crate) max_receive_count: Option<u32>,
    pub(crate) launch: Launch,
    pub(crate) settings: PollerSettings,
    pub(crate) faults: Faults,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            queue: QUEUE,
            visibility: LIMIT,
            max_receive_count: None,
            launch: scripted(),
            settings: PollerSettings::default(),
            faults: Faults::default(),
        }
    }
}

pub(crate) struct World {
    pub(crate) sqs: LocalSqs,
    pub(crate) controls: PollerControls,
    /// The events that the test has read so far.
    pub(crate) seen: Vec<LocalEvent>,
    happenings: mpsc::UnboundedReceiver<LocalEvent>,
    run: JoinHandle<Result<(), PollerError<QueueError>>>,
    queue: &'static str,
}

impl World {
    /// Starts a poller on a queue with these bodies, whose messages are `m-1`, `m-2` and so on.
    pub(crate) async fn start(plan: Plan, bodies: &[String]) -> Self {
        let messages = bodies.iter().enumerate().map(|(index, body)| {
            let id = format!("m-{}", index + 1);
            NewMessage::new(id, body)
        });
        Self::with(plan, messages.collect()).await
    }

    pub(crate) async fn with(plan: Plan, messages: Vec<NewMessage>) -> Self {
        let (sender, happenings) = mpsc::unbounded_channel();
        let observer: Observer = Arc::new(move |_, happening: &LocalEvent| {
            // The receiver is gone at the end of a test.
            let _ = sender.send(happening.clone());
        });
        let mut queues = Queues::default();
        queues.observe(Arc::clone(&observer));
        queues.create(DEAD, QueueSettings::default()).unwrap();
        let settings = QueueSettings {
            visibility_timeout: plan.visibility,
            redrive: plan.max_receive_count.map(|max_receive_count| Redrive {
                to: DEAD.to_owned(),
                max_receive_count,
            }),
            ..QueueSettings::default()
        };
        queues.create(plan.queue, settings).unwrap();
        for message in messages {
            queues.send(plan.queue, message, SystemTime::now()).unwrap();
        }
        let sqs = LocalSqs::start(queues).await.unwrap();
        let source = LocalQueue::new(&sqs, plan.queue);
        let poller = Poller::new(source, plan.launch, plan.settings)
            .observe(observer)
            .faults(plan.faults);
        Self {
            sqs,
            controls: poller.controls(),
            seen: Vec::new(),
            happenings,
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

    /// Waits for an event for which `wanted` returns a value.
    pub(crate) async fn until<T>(&mut self, wanted: impl Fn(&LocalEvent) -> Option<T>) -> T {
        let limit = tokio::time::Instant::now() + LIMIT;
        loop {
            let next = tokio::time::timeout_at(limit, self.happenings.recv()).await;
            let Ok(Some(happening)) = next else {
                panic!("it never happened; what did: {:#?}", self.seen);
            };
            let found = wanted(&happening);
            self.seen.push(happening);
            if let Some(found) = found {
                return found;
            }
        }
    }

    pub(crate) async fn until_deleted(&mut self, id: &str) {
        self.until(|happening| match happening {
            LocalEvent::Deleted { message_id, .. } if message_id == id => Some(()),
            _ => None,
        })
        .await;
    }

    /// Waits for an answer that fails the whole batch, and returns the reason.
    pub(crate) async fn until_failed(&mut self) -> String {
        self.until(|happening| match happening {
            LocalEvent::Answered {
                answer: Answer::Failed { reason },
                ..
            } => Some(reason.clone()),
            _ => None,
        })
        .await
    }

    /// Waits for an invocation and returns the batch's messages.
    pub(crate) async fn until_invoked(&mut self) -> Vec<String> {
        self.until(|happening| match happening {
            LocalEvent::Invoked { message_ids, .. } => Some(message_ids.clone()),
            _ => None,
        })
        .await
    }

    /// Waits for an environment to end and returns the reason.
    pub(crate) async fn until_ended(&mut self) -> String {
        self.until(|happening| match happening {
            LocalEvent::EnvironmentEnded { reason, .. } => Some(reason.clone()),
            _ => None,
        })
        .await
    }

    /// Stops the poller and waits for its end. `seen` then contains all events.
    pub(crate) async fn stop(&mut self) {
        self.controls.stop();
        self.end().await.unwrap();
    }

    pub(crate) async fn end(&mut self) -> Result<(), PollerError<QueueError>> {
        let ended = tokio::time::timeout(LIMIT, &mut self.run).await;
        while let Ok(happening) = self.happenings.try_recv() {
            self.seen.push(happening);
        }
        match ended {
            Ok(ended) => ended.unwrap(),
            Err(_) => panic!("it did not end; what happened: {:#?}", self.seen),
        }
    }

    /// The batches in the order in which the function received them.
    pub(crate) fn batches(&self) -> Vec<Vec<&str>> {
        let happened = self.seen.iter();
        let such = happened.filter_map(|happening| match happening {
            LocalEvent::Invoked { message_ids, .. } => {
                Some(message_ids.iter().map(String::as_str).collect())
            }
            _ => None,
        });
        such.collect()
    }

    /// The injected faults, and the messages that each affected.
    pub(crate) fn faults(&self) -> Vec<(&str, Vec<&str>)> {
        let happened = self.seen.iter();
        let such = happened.filter_map(|happening| match happening {
            LocalEvent::Fault { what, message_ids } => Some((
                what.as_str(),
                message_ids.iter().map(String::as_str).collect(),
            )),
            _ => None,
        });
        such.collect()
    }

    pub(crate) fn deleted(&self) -> Vec<&str> {
        let happened = self.seen.iter();
        let such = happened.filter_map(|happening| match happening {
            LocalEvent::Deleted { message_id, .. } => Some(message_id.as_str()),
            _ => None,
        });
        such.collect()
    }

    pub(crate) fn environments(&self) -> usize {
        let is_start = |one: &&LocalEvent| matches!(one, LocalEvent::EnvironmentStarted { .. });
        self.seen.iter().filter(is_start).count()
    }
}
