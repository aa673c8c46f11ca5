//! Builds a consumer in phases: payload, key, handler, state.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tracing::{Instrument, debug_span};

use crate::batch::{self, Engine};
use crate::error::ConfigError;
use crate::handler::decode::{Decoder, IntoDecoder};
use crate::handler::{BatchHandler, Bind, Handler, Reader, erase, erase_batch};
use crate::idempotency::DriverSettings;
use crate::key::{Fingerprint, KeyError, KeyExtractor, KeyPart};
use crate::record::{Json, Message};
use crate::report::Entry;
use crate::telemetry::{BatchMetrics, Identity, Seen};
use crate::time::Timestamp;

use super::routes::Routes;
use super::settings::Settings;

/// A consumer that needs a key next: [`Consumer::key`].
pub struct Keyless<T>(Decoder<T>);

impl<T> std::fmt::Debug for Keyless<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyless").finish_non_exhaustive()
    }
}

/// A consumer that needs its handler next: [`Consumer::handler`].
pub struct Keyed<T, K, S = ()> {
    pub(super) reader: Reader<T, K>,
    state: S,
}

impl<T, K, S: std::fmt::Debug> std::fmt::Debug for Keyed<T, K, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyed")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// A consumer with its handler. It can run if `S` is `()`. Otherwise, [`Consumer::state`] must provide the state first.
pub struct Ready<S = ()> {
    pub(super) handles: Handles<S>,
}

/// What handles the records.
pub(super) enum Handles<S> {
    One(Bind<S>),
    Routes(Arc<Routes>),
}

impl<S> Clone for Ready<S> {
    fn clone(&self) -> Self {
        let handles = match &self.handles {
            Handles::One(bind) => Handles::One(Arc::clone(bind)),
            Handles::Routes(routes) => Handles::Routes(Arc::clone(routes)),
        };
        Self { handles }
    }
}

impl<S> std::fmt::Debug for Ready<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").finish_non_exhaustive()
    }
}

/// An SQS consumer: gives every record a business key, claims it, runs the handler, records
/// completion, and answers Lambda with exactly the records to retry.
///
/// It is a `tower::Service` for Lambda's SQS events, and `Clone`: [`run`](crate::run) drives it, and so does
/// `lambda_runtime::run_concurrent`. Settings that the code leaves out come from the environment, which is read once,
/// with the first event or by [`Consumer::init`]. An invalid setting fails there with a [`ConfigError`], whether it
/// comes from the code or from the environment. [The guide](crate::guide::options) lists all settings with their
/// variables and defaults.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::{HandlerError, MemoryStore};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
///
/// let consumer = sqs_once::consumer::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .namespace("payments")
///     .store(MemoryStore::new())
///     .concurrency(16)
///     .handler(charge);
/// ```
#[derive(Clone)]
pub struct Consumer<Phase = Ready> {
    pub(super) phase: Phase,
    pub(super) settings: Settings,
    /// Resolved from phase and settings on first use. Clones share it; changing a setting starts with a new one.
    engine: Arc<OnceCell<Arc<Engine>>>,
}

/// Starts building a consumer of messages whose body is a `T` in JSON.
pub fn consumer<T: DeserializeOwned + Send + 'static>() -> Consumer<Keyless<T>> {
    consumer_with(Json)
}

/// Starts building a consumer of messages whose body `decoder` reads: [`Text`](crate::body::Text),
/// [`Bytes`](crate::body::Bytes), or a [`Decode`](crate::body::Decode) or [`AsyncDecode`](crate::body::AsyncDecode) of
/// your own.
///
/// ```
/// use sqs_once::body::Bytes;
/// use sqs_once::key::MessageAttribute;
///
/// let consumer = sqs_once::consumer_with(Bytes)
///     .key(MessageAttribute::new("image-id"))
///     .handler(async |image: Vec<u8>| {});
/// ```
pub fn consumer_with<T: Send + 'static, M>(
    decoder: impl IntoDecoder<T, M>,
) -> Consumer<Keyless<T>> {
    Consumer::new(Keyless(decoder.into_decoder()))
}

impl<T> Consumer<Keyless<T>> {
    /// Sets what makes two messages the same event: a function of the payload, or another
    /// [`KeyExtractor`].
    ///
    /// The key has no default. The message id would be wrong: a message that is sent again, or redriven from a dead-letter
    /// queue, has a new id.
    pub fn key<K: KeyExtractor<T>>(self, key: K) -> Consumer<Keyed<T, K>> {
        self.into_phase(|Keyless(decoder)| Keyed {
            reader: Reader {
                decoder,
                key,
                fingerprint: None,
            },
            state: (),
        })
    }
}

impl<T, K, S> Consumer<Keyed<T, K, S>>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    /// Sets which part of the payload distinguishes two messages with one key. The part is anything that can be a key,
    /// `None`, or empty text. Default: the whole body. [`Consumer::payload_mismatch`] chooses what happens to a message
    /// that differs. A function that fails or panics makes its record terminal.
    ///
    /// Use this for payloads with fields that change from one copy of an event to the next, such as the time of
    /// sending. After you add or remove this setting, copies of events that were completed before are duplicates with a
    /// warning, because their payloads can't be compared.
    ///
    /// A closure that takes another part than before makes these copies payload mismatches, because the library can't
    /// detect its change. Drain the queue first, or set [`PayloadMismatch::Warn`](crate::policy::PayloadMismatch::Warn)
    /// until no old copies can arrive. The library does detect another expression in the attribute's `fingerprint = …`.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)]
    /// # struct OrderPlaced { order_id: String, amount_cents: u64, currency: Option<String> }
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .fingerprint(|order: &OrderPlaced| (order.amount_cents, order.currency.clone()))
    ///     .handler(async |_order: OrderPlaced| {});
    /// ```
    #[must_use]
    pub fn fingerprint<F, P>(self, part: F) -> Self
    where
        F: Fn(&T) -> P + Send + Sync + 'static,
        P: KeyPart,
    {
        self.fingerprint_with(move |payload| Fingerprint::new(&part(payload)))
    }

    /// Sets the [`fingerprint`](Self::fingerprint) to a part that borrows from its payload.
    pub(super) fn fingerprint_with<F>(self, take: F) -> Self
    where
        F: Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync + 'static,
    {
        self.into_phase(|mut keyed| {
            keyed.reader.fingerprint = Some(Arc::new(take));
            keyed
        })
    }

    /// Sets the value of the handler's [`State`](crate::State) extractor.
    pub fn state<S2>(self, state: S2) -> Consumer<Keyed<T, K, S2>> {
        self.into_phase(|keyed| Keyed {
            reader: keyed.reader,
            state,
        })
    }

    /// Sets the handler.
    pub fn handler<H, X>(self, handler: H) -> Consumer
    where
        S: Clone + Send + Sync + 'static,
        H: Handler<T, S, X>,
        X: 'static,
    {
        self.into_phase(|keyed| ready(erase(keyed.reader, handler)).with_state(keyed.state))
    }

    /// Sets a handler that receives all records of a batch in one call: see [`BatchHandler`].
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use sqs_once::Batch;
    ///
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .batch_handler(async |orders: Batch<OrderPlaced>| orders.all_succeeded());
    /// ```
    pub fn batch_handler<H, X>(self, handler: H) -> Consumer
    where
        S: Clone + Send + Sync + 'static,
        H: BatchHandler<T, S, X>,
        X: 'static,
    {
        self.into_phase(|keyed| ready(erase_batch(keyed.reader, handler)).with_state(keyed.state))
    }
}

pub(super) fn ready<S>(bind: Bind<S>) -> Ready<S> {
    Ready {
        handles: Handles::One(bind),
    }
}

impl<S: Send + Sync + 'static> Ready<S> {
    fn with_state(self, state: S) -> Ready {
        let state = Arc::new(state);
        let handles = match self.handles {
            Handles::One(bind) => Handles::One(Arc::new(move |_| bind(Arc::clone(&state)))),
            Handles::Routes(routes) => Handles::Routes(routes),
        };
        Ready { handles }
    }
}

impl<S: Clone + Send + Sync + 'static> Consumer<Ready<S>> {
    /// Sets the value of the handler's [`State`](crate::State) extractor.
    pub fn state(self, state: S) -> Consumer {
        self.into_phase(|ready| ready.with_state(state))
    }
}

impl Consumer {
    /// Reads the environment, if it was not read before, and sends a request to the store.
    ///
    /// The request reads an id that no record has. It loads credentials and opens the connection, so that the first
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
        ends_at: Timestamp,
        cold_start: bool,
    ) -> Result<Vec<Entry>, ConfigError> {
        let engine = self.engine().await?;
        let opens_envelopes = match &self.phase.handles {
            Handles::One(_) => false,
            Handles::Routes(routes) => routes.opens_envelopes(),
        } || self.settings.envelope.is_some();
        if !opens_envelopes && self.settings.correlate.is_none() {
            // Sets the correlation id now, so that the log lines of records that never start have it too.
            messages.iter().for_each(|message| message.correlate(None));
        }
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
        let (entries, tally) = batch::answer(Arc::clone(engine), messages, deadline).await;
        if engine.meter.is_on() {
            let ended = clock.now();
            let duration = ended.since(began);
            let metrics = BatchMetrics::of(&seen, &entries, tally, duration, cold_start);
            engine.meter.flush(&metrics, ended);
        }
        Ok(entries)
    }

    #[cfg(feature = "opentelemetry")]
    pub(crate) fn after_each_answer(&self) -> Option<super::AfterAnswer> {
        self.settings.after_answer.clone()
    }

    pub(crate) async fn identity(&self) -> Result<&Identity, ConfigError> {
        Ok(&self.engine().await?.identity)
    }

    pub(super) async fn engine(&self) -> Result<&Arc<Engine>, ConfigError> {
        // Boxed, because every batch's future would have its size.
        let resolve = || Box::pin(self.settings.resolve(&self.phase.handles));
        self.engine.get_or_try_init(resolve).await
    }
}

impl<Phase> Consumer<Phase> {
    pub(super) fn new(phase: Phase) -> Self {
        Self {
            phase,
            settings: Settings::default(),
            engine: Arc::default(),
        }
    }

    pub(crate) fn raises_on_total_failure(&self) -> bool {
        self.settings.raise_on_total_failure
    }

    pub(super) fn into_phase<P2>(self, phase: impl FnOnce(Phase) -> P2) -> Consumer<P2> {
        Consumer {
            phase: phase(self.phase),
            settings: self.settings,
            engine: Arc::default(),
        }
    }

    pub(crate) fn set_shared(self, change: impl FnOnce(&mut DriverSettings)) -> Self {
        self.set(|settings| change(&mut settings.idempotency))
    }

    /// Changes a setting that concerns the whole batch, so that a route of a router can't have it.
    pub(super) fn set_of_batch(
        self,
        name: &'static str,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        self.set(|settings| {
            settings.of_batch.push(name);
            change(settings);
        })
    }

    pub(super) fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self.engine = Arc::default();
        self
    }
}

impl<Phase> std::fmt::Debug for Consumer<Phase> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}
