//! The poller, which gathers batches and hands them to execution environments.

use super::delivery::{Item, Shared, copy};
use super::environments::{Build, Environments};
use super::faults::{FaultControls, FaultSource};
use super::settings::PollerSettings;
use crate::launch::Launch;
use crate::local_event::{Observer, Observers};
use crate::lock;
use crate::message::Received;
use crate::queue::{Source, event};
use std::error::Error;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

/// How long the poller waits after it found the queue empty.
const IDLE: Duration = Duration::from_millis(20);
/// How long one request waits for the first message of a batch.
const LONG_POLL: Duration = Duration::from_secs(2);
/// The most messages that SQS returns from one request.
const MOST_AT_ONCE: u32 = 10;
/// The largest event that Lambda passes to a function.
const LARGEST_EVENT: usize = 6 * 1024 * 1024;
/// How long to wait after the first failed start. Each further failure doubles the wait.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// Polls a queue for a function, as Lambda's event source mapping does. It runs the function's binary in as many
/// execution environments as needed.
///
/// An environment is a process that handles one batch at a time. The poller starts another one only when all others are
/// busy, and keeps those that it has. It kills a process that exceeds the timeout and replaces a process that ends. It
/// receives messages only when an environment is ready for them, so a function that can't start takes none.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use sqs_once_local::{
///     Launch, LocalQueue, LocalSqs, NewMessage, Poller, PollerSettings, QueueSettings, Queues,
/// };
/// use std::time::SystemTime;
///
/// let mut queues = Queues::default();
/// queues.create("orders", QueueSettings::default())?;
/// queues.send("orders", NewMessage::new("m-1", r#"{"order_id": "o-1"}"#), SystemTime::now())?;
/// let sqs = LocalSqs::start(queues).await?;
///
/// let settings = PollerSettings { until_empty: true, ..PollerSettings::default() };
/// Poller::new(LocalQueue::new(&sqs, "orders"), Launch::new("target/debug/orders"), settings)
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct Poller<S> {
    shared: Shared<S>,
    stop: watch::Sender<bool>,
}

/// Controls a running [`Poller`].
#[derive(Clone)]
pub struct PollerControls {
    build: watch::Sender<Build>,
    stop: watch::Sender<bool>,
}

impl PollerControls {
    /// Runs another binary from now on. Busy environments are replaced after they have answered.
    pub fn replace(&self, launch: Launch) {
        self.build.send_modify(|build| {
            *build = Build {
                generation: build.generation + 1,
                launch,
            };
        });
    }

    /// Stops polling. The poller ends after the in-flight invocations have finished.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

impl<S: Source> Poller<S> {
    /// Creates a poller of `source` for the function that `launch` starts. It replaces the log line callbacks of
    /// `launch`.
    pub fn new(source: S, launch: Launch, settings: PollerSettings) -> Self {
        let shared = Shared {
            arn: source.arn(),
            source,
            settings,
            observers: Observers::default(),
            faults: FaultSource::new(FaultControls::default()),
            environments: Environments::new(launch),
            copies: Mutex::default(),
        };
        Self {
            shared,
            stop: watch::Sender::new(false),
        }
    }

    /// Reports what happens to the function to `observer`. [`Queues::observe`](crate::Queues::observe) reports what
    /// happens to messages.
    #[must_use]
    pub fn observe(mut self, observer: Observer) -> Self {
        self.shared.observers.add(observer);
        self
    }

    /// Injects [`Faults`](super::Faults) into deliveries and invocations. With [`FaultControls`], they can change while
    /// the poller runs.
    #[must_use]
    pub fn faults(mut self, faults: impl Into<FaultControls>) -> Self {
        self.shared.faults = FaultSource::new(faults.into());
        self
    }

    /// Returns a handle that controls the poller while it runs.
    pub fn controls(&self) -> PollerControls {
        PollerControls {
            build: self.shared.environments.build.clone(),
            stop: self.stop.clone(),
        }
    }

    /// Polls until it is stopped, or with [`PollerSettings::until_empty`] until no message is left. Dropping the future
    /// kills the running processes.
    ///
    /// # Errors
    /// [`PollerError::Source`] if the queue fails. With `until_empty`, [`PollerError::Start`] if the function can't be
    /// started.
    pub async fn run(self) -> Result<(), PollerError<S::Error>> {
        let running = Running {
            shared: Arc::new(self.shared),
            deliveries: JoinSet::new(),
            stop: self.stop,
        };
        running.run().await
    }
}

struct Running<S: Source> {
    shared: Arc<Shared<S>>,
    deliveries: JoinSet<Result<(), S::Error>>,
    stop: watch::Sender<bool>,
}

impl<S: Source> Running<S> {
    /// Polls, and waits for in-flight deliveries even if polling failed.
    async fn run(mut self) -> Result<(), PollerError<S::Error>> {
        let mut ended = self.poll().await;
        while let Some(delivered) = self.deliveries.join_next().await {
            ended = ended.and(settled(delivered));
        }
        self.shared.environments.end_all().await;
        ended
    }

    async fn poll(&mut self) -> Result<(), PollerError<S::Error>> {
        let mut failed_starts = 0;
        while self.may_deliver().await? {
            let build = self.shared.environments.build.subscribe();
            let environment = match self
                .shared
                .environments
                .environment(&self.shared.observers)
                .await
            {
                Ok(environment) => environment,
                Err(reason) if self.shared.settings.until_empty => {
                    return Err(PollerError::Start { reason });
                }
                Err(_) => {
                    failed_starts += 1;
                    self.back_off(failed_starts, build).await;
                    continue;
                }
            };
            failed_starts = 0;
            let batch = self.gather().await.map_err(PollerError::Source)?;
            if !batch.is_empty() {
                let shared = Arc::clone(&self.shared);
                let delivery = async move { shared.deliver(environment, batch).await };
                self.deliveries.spawn(delivery);
                continue;
            }
            self.shared.environments.put(environment);
            if self.shared.settings.until_empty && self.is_done().await? {
                break;
            }
            self.wait(IDLE).await;
        }
        Ok(())
    }

    /// Waits until a delivery may start. Returns `false` once the poller is stopped.
    async fn may_deliver(&mut self) -> Result<bool, PollerError<S::Error>> {
        let mut stop = self.stop.subscribe();
        let most = usize::try_from(self.shared.settings.concurrency.get()).unwrap_or(usize::MAX);
        loop {
            while let Some(delivered) = self.deliveries.try_join_next() {
                settled(delivered)?;
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(false),
                () = std::future::ready(()), if self.deliveries.len() < most => return Ok(true),
                Some(delivered) = self.deliveries.join_next() => settled(delivered)?,
            }
        }
    }

    /// Waits after a failed start, or until a new build arrives.
    async fn back_off(&self, failed_starts: u32, mut build: watch::Receiver<Build>) {
        let longer = FIRST_BACKOFF * (1 << failed_starts.clamp(1, 10).saturating_sub(1));
        tokio::select! {
            () = self.wait(longer.min(LONGEST_BACKOFF)) => {}
            _ = build.changed() => {}
        }
    }

    /// Waits for `time`, or until the poller is stopped.
    async fn wait(&self, time: Duration) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// Receives messages until the batch is full or its window is over. Returns copies of messages in flight first.
    async fn gather(&self) -> Result<Vec<Item>, S::Error> {
        let (settings, source) = (&self.shared.settings, &self.shared.source);
        if let Some(copies) = lock(&self.shared.copies).pop_front() {
            return Ok(copies.iter().map(copy).collect());
        }
        let mut batch = Batch {
            size: settings.batch_size,
            messages: Vec::new(),
            bytes: 0,
        };
        let (mut until, mut wait) = (None, LONG_POLL);
        while let Some(room) = batch.room() {
            let received = source.receive(room, wait).await?;
            let is_empty = received.is_empty();
            let rest = batch.add(received, &self.shared.arn);
            if !rest.is_empty() {
                source.give_back(&rest).await?;
                break;
            }
            if batch.messages.is_empty() {
                return Ok(Vec::new());
            }
            let now = Instant::now();
            let until = *until.get_or_insert(now + settings.window);
            let is_over = now >= until;
            // Without a window, a batch takes the messages that are available now, with as many requests as needed.
            if *self.stop.borrow() || is_over && (is_empty || !settings.window.is_zero()) {
                break;
            }
            if is_empty {
                self.wait(IDLE.min(until - now)).await;
            }
            wait = until.saturating_duration_since(Instant::now());
        }
        Ok(self.with_duplicates(batch.messages))
    }

    /// Decides which messages to deliver twice.
    fn with_duplicates(&self, messages: Vec<Received>) -> Vec<Item> {
        let Shared { faults, arn, .. } = &*self.shared;
        let mut copies = Vec::new();
        let batch = messages
            .into_iter()
            .map(|received| {
                let is_duplicate = faults.duplicates();
                // Two environments never process messages of one group at the same time.
                let at_once = is_duplicate && !arn.ends_with(".fifo") && faults.at_once();
                if at_once {
                    copies.push(received.clone());
                }
                Item {
                    received,
                    again: is_duplicate && !at_once,
                }
            })
            .collect();
        if !copies.is_empty() {
            let copied = copies.iter().map(|one| one.message.id.clone()).collect();
            self.shared
                .report_fault("delivered twice at a time", copied);
            lock(&self.shared.copies).push_back(copies);
        }
        batch
    }

    /// Whether the queue is empty and no delivery is in flight.
    async fn is_done(&self) -> Result<bool, PollerError<S::Error>> {
        let is_empty = self.shared.source.is_empty();
        Ok(self.deliveries.is_empty() && is_empty.await.map_err(PollerError::Source)?)
    }
}

/// Returns the result of a delivery. Resumes the panic of one that panicked, since that is a bug in this crate.
fn settled<E: Error + 'static>(
    delivered: Result<Result<(), E>, JoinError>,
) -> Result<(), PollerError<E>> {
    match delivered {
        Ok(delivered) => delivered.map_err(PollerError::Source),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Deliveries are cancelled only when the poller itself is dropped.
            Err(_) => Ok(()),
        },
    }
}

struct Batch {
    size: NonZeroU32,
    messages: Vec<Received>,
    bytes: usize,
}

impl Batch {
    /// How many messages to request, or `None` if the batch is full.
    fn room(&self) -> Option<NonZeroU32> {
        let held = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        NonZeroU32::new(self.size.get().saturating_sub(held).min(MOST_AT_ONCE))
    }

    /// Adds the messages that fit into an event and returns the rest.
    fn add(&mut self, received: Vec<Received>, arn: &str) -> Vec<Received> {
        let mut received = received.into_iter();
        for message in received.by_ref() {
            let bytes = self.bytes + event(std::slice::from_ref(&message), arn).len();
            if bytes > LARGEST_EVENT && !self.messages.is_empty() {
                return std::iter::once(message).chain(received).collect();
            }
            self.bytes = bytes;
            self.messages.push(message);
        }
        Vec::new()
    }
}

/// Why a [`Poller`] ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PollerError<E: Error + 'static> {
    /// The queue failed.
    #[error("the queue can't be polled")]
    Source(#[source] E),
    /// The function could not be started.
    #[error("the function can't be started: {reason}")]
    Start {
        /// The reason.
        reason: String,
    },
}
