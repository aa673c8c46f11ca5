//! A consumer, which runs one handler or a router.

use std::sync::Arc;

use tokio::sync::OnceCell;
use tracing::{Instrument, debug_span};

use lambda_runtime::Context;

use crate::batch::{self, Engine};
use crate::error::ConfigError;
use crate::record::Message;
use crate::report::Entry;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::AfterAnswer;
use crate::telemetry::{BatchMetrics, Identity, Seen};
use crate::time::Timestamp;

use super::handler::Bound;
use super::handler_settings::HandlerSettings;
use super::routes::Router;
use super::runnable::Runnable;
use super::settings::Settings;

/// What handles the messages.
#[derive(Clone)]
pub(super) enum Handles {
    One(Box<Bound>),
    Routes(Arc<Router>),
}

impl Handles {
    /// Returns the settings of the handler, or those that the routes share.
    pub(super) fn common(&self) -> &HandlerSettings {
        match self {
            Self::One(handler) => &handler.settings,
            Self::Routes(router) => &router.defaults,
        }
    }

    fn opens_envelopes(&self) -> bool {
        let routes_do = match self {
            Self::One(_) => false,
            Self::Routes(router) => router.opens_envelopes(),
        };
        routes_do || self.common().envelope.is_some()
    }
}

/// An SQS consumer. It gives every message a business key, claims the key, runs the handler, completes the key, and
/// answers Lambda with exactly the messages to retry.
///
/// It runs a [`Handler`](super::Handler), a [`BatchHandler`](crate::BatchHandler) or a [router](crate::Router), and
/// has the settings of the batch. [`run`](crate::run) drives it. So does `lambda_runtime::run_concurrent`, because a
/// consumer is a `tower::Service` for Lambda's SQS events, and `Clone`.
///
/// Settings override the environment. The last call of a method counts, but two calls of one that takes a function
/// fail at [`init`](Self::init). Settings that the code leaves out come from the environment, which is read once, with
/// the first event or by [`init`](Self::init). An invalid setting fails there with a [`ConfigError`], whether it
/// comes from the code or from the environment. [The guide](crate::guide::options) lists all settings with their
/// variables and defaults.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::store::MemoryStore;
/// use sqs_once::{Consumer, HandlerError};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
///
/// let consumer = Consumer::new(charge::handler())
///     .store(MemoryStore::new())
///     .concurrency(16);
/// ```
#[derive(Clone)]
#[must_use = "a consumer does nothing until it runs: `sqs_once::run(consumer)`"]
pub struct Consumer {
    pub(super) handles: Handles,
    pub(super) settings: Settings,
    /// Resolved from the settings on first use. Clones share it; changing a setting starts with a new one.
    engine: Arc<OnceCell<Arc<Engine>>>,
}

impl Consumer {
    /// Creates a consumer that runs a [`Handler`](super::Handler), a [`BatchHandler`](crate::BatchHandler) or a
    /// [router](crate::Router).
    pub fn new(runs: impl Runnable) -> Self {
        runs.into_consumer()
    }

    pub(super) fn of(handles: Handles) -> Self {
        Self {
            handles,
            settings: Settings::default(),
            engine: Arc::default(),
        }
    }

    /// Reads the environment, if it was not read before, and sends a request to the store.
    ///
    /// The request reads an id that no item has. It loads credentials and opens the connection, so that the first
    /// batch does not have to. It takes 3 s at most. A failed request is logged and is not an error: a function should
    /// start even if its table is briefly unreachable. [`run`](crate::run) calls this before it requests the first
    /// event.
    ///
    /// # Errors
    /// [`ConfigError`] if a setting is missing or malformed.
    pub async fn init(&self) -> Result<(), ConfigError> {
        let init = async {
            let engine = self.engine().instrument(debug_span!("configure")).await?;
            let rules = &engine.routes[0].idempotency;
            let items = rules.connect(engine.breakers.ids()).await;
            engine.breakers.learn(&items, rules.driver.clock.now());
            Ok(())
        };
        init.instrument(debug_span!("init")).await
    }

    pub(crate) async fn process(
        &self,
        messages: Vec<Message>,
        invocation: Context,
        cold_start: bool,
    ) -> Result<Vec<Entry>, ConfigError> {
        let engine = self.engine().await?;
        if !self.handles.opens_envelopes() && self.settings.telemetry.correlate.is_none() {
            // Sets the correlation id now, so that the log lines of messages that never start have it too.
            messages.iter().for_each(|message| message.correlate(None));
        }
        let ends_at = Timestamp::from_millis(invocation.deadline);
        let deadline = engine.driver().deadline(ends_at);
        let clock = &engine.driver().clock;
        let began = clock.now();
        let seen: Vec<_> = match engine.meter.is_on() {
            true => messages
                .iter()
                .map(|message| Seen::of(message, began))
                .collect(),
            false => Vec::new(),
        };
        let (entries, tally) =
            batch::answer(Arc::clone(engine), messages, invocation, deadline).await;
        if engine.meter.is_on() {
            let ended = clock.now();
            let duration = ended.since(began);
            let metrics = BatchMetrics::of(&seen, &entries, tally, duration, cold_start);
            engine.meter.flush(&metrics, ended);
        }
        Ok(entries)
    }

    #[cfg(feature = "opentelemetry")]
    pub(crate) fn after_each_answer(&self) -> Option<AfterAnswer> {
        self.settings.telemetry.after_answer.clone()
    }

    pub(crate) fn is_pipe_target(&self) -> bool {
        self.settings.is_pipe_target
    }

    pub(crate) async fn identity(&self) -> Result<&Identity, ConfigError> {
        Ok(&self.engine().await?.identity)
    }

    pub(super) async fn engine(&self) -> Result<&Arc<Engine>, ConfigError> {
        // Boxed, because every batch's future would have its size.
        let resolve = || Box::pin(self.settings.resolve(&self.handles));
        self.engine.get_or_try_init(resolve).await
    }

    pub(super) fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self.engine = Arc::default();
        self
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}
