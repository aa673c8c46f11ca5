//! A handler: a function with its key and the settings of its messages.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::handler::decode::{Decoder, IntoDecoder};
use crate::handler::{
    BatchHandlerFn, Bind, Compared, ErrorTypes, HandlerFn, Reader, erase, erase_batch,
};
use crate::idempotency::KeySettings;
use crate::key::{Fingerprint, KeyError, KeyExtractor, KeyPart};
use crate::record::Json;

use super::handler_settings::HandlerSettings;

/// A function that handles messages, with their key and their settings. The attribute
/// [`handler`](macro@crate::handler) creates one: `charge::handler()`.
///
/// A [`Consumer`](crate::Consumer) runs a handler, and has the settings of the batch: the store, the concurrency, the
/// queues. A [router](crate::Router) has several handlers, and chooses one for each message.
///
/// Settings override the environment. The last call of a method counts; two functions for one hook fail at
/// [`init`](crate::Consumer::init). [The guide](crate::guide::options) lists all settings with their defaults.
///
/// Without the attribute, a handler is built in steps: the payload, the key, the function.
///
/// ```
/// use std::time::Duration;
///
/// use serde::Deserialize;
/// use sqs_once::store::MemoryStore;
/// use sqs_once::{Consumer, Handler, HandlerError};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
///
/// let handler = Handler::json::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .call(charge)
///     .namespace("charges")
///     .attempt_timeout(Duration::from_secs(10));
/// let consumer = Consumer::new(handler).store(MemoryStore::new()).concurrency(16);
/// ```
#[derive(Clone)]
#[must_use = "a handler does nothing until it runs: `sqs_once::run(handler)`"]
pub struct Handler<Kind = One> {
    kind: Kind,
    pub(super) settings: HandlerSettings,
}

/// A [`Handler`] that receives all messages of a batch in one call: see
/// [`BatchHandlerFn`](crate::handler::BatchHandlerFn).
pub type BatchHandler = Handler<Together>;

/// The kind of a [`Handler`] that is called for each message.
#[derive(Clone)]
pub struct One(Bind);

/// The kind of a [`BatchHandler`].
#[derive(Clone)]
pub struct Together(Bind);

/// The kind of the settings that the handlers of a router share: [`Handler::defaults`].
#[derive(Clone)]
pub struct Defaults(());

/// The kind of the settings of work that no message brings: [`Handler::work`].
#[derive(Clone)]
pub struct Work(());

/// The kinds with a namespace of their own: all but [`Defaults`].
#[diagnostic::on_unimplemented(
    message = "the defaults of a router have no such setting",
    note = "each handler has its own: `Router::by_attribute(…).route(name, charge::handler().namespace(…))`"
)]
pub trait Named: sealed::Sealed {}

/// The kinds that handle messages: all but [`Work`].
pub trait OfMessages: sealed::Sealed {}

/// The kinds that handle each message in a call of its own: [`One`] and [`Defaults`].
#[diagnostic::on_unimplemented(
    message = "a batch handler has no such setting",
    note = "a layer and the policy for attempts of unknown outcome need a call for each message: `#[sqs_once::handler(…)]`"
)]
pub trait OfEachMessage: sealed::Sealed {}

impl Named for One {}
impl Named for Together {}
impl Named for Work {}
impl OfMessages for One {}
impl OfMessages for Together {}
impl OfMessages for Defaults {}
impl OfEachMessage for One {}
impl OfEachMessage for Defaults {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::One {}
    impl Sealed for super::Together {}
    impl Sealed for super::Defaults {}
    impl Sealed for super::Work {}
}

/// A handler that needs its key next: [`Keyless::key`].
#[must_use = "a handler needs a key next: `.key(…)`"]
pub struct Keyless<T>(Decoder<T>);

/// A handler that needs its function next: [`Keyed::call`].
#[must_use = "a handler needs a function next: `.call(…)`"]
pub struct Keyed<T, K, S = ()> {
    reader: Reader<T, K>,
    state: S,
}

impl Handler {
    /// Starts building a handler of messages whose body is a `T` in JSON.
    pub fn json<T: DeserializeOwned + Send + 'static>() -> Keyless<T> {
        Self::decode(Json)
    }

    /// Starts building a handler of messages whose body `decoder` reads: [`Text`](crate::body::Text),
    /// [`Base64`](crate::body::Base64), or a [`Decode`](crate::body::Decode) or [`AsyncDecode`](crate::body::AsyncDecode)
    /// of your own.
    ///
    /// ```
    /// use sqs_once::Handler;
    /// use sqs_once::body::Base64;
    /// use sqs_once::key::MessageKey;
    ///
    /// let handler = Handler::decode(Base64)
    ///     .key(MessageKey::attribute("image-id"))
    ///     .call(async |image: Vec<u8>| {});
    /// ```
    pub fn decode<T: Send + 'static, M>(decoder: impl IntoDecoder<T, M>) -> Keyless<T> {
        Keyless(decoder.into_decoder())
    }

    /// Returns the settings that the handlers of a [router](crate::Router) share, for
    /// [`defaults`](crate::Router::defaults). They leave everything to the environment and the defaults of the settings.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use sqs_once::Handler;
    ///
    /// let defaults = Handler::defaults()
    ///     .retention(Duration::from_secs(7 * 24 * 60 * 60))
    ///     .depends_on("payments");
    /// ```
    pub fn defaults() -> Handler<Defaults> {
        Handler::of(Defaults(()))
    }

    /// Returns the settings of work that no message brings, for an [`Idempotency`](crate::Idempotency). Their
    /// [namespace](Self::namespace) is that of the environment, unless you set one.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use sqs_once::{Handler, Idempotency};
    ///
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// let idempotency = Idempotency::new(Handler::work().namespace("receipts").retention(day));
    /// ```
    pub fn work() -> Handler<Work> {
        Handler::of(Work(()))
    }
}

impl<T> Keyless<T> {
    /// Sets what makes two messages the same event: a function of the payload, or another
    /// [`KeyExtractor`].
    ///
    /// The key has no default. The message id would be wrong: a message that is sent again, or redriven from a dead-letter
    /// queue, has a new id.
    pub fn key<K: KeyExtractor<T>>(self, key: K) -> Keyed<T, K> {
        let reader = Reader {
            decoder: self.0,
            key,
            compared: Compared::Body,
        };
        Keyed { reader, state: () }
    }
}

impl<T, K, S> Keyed<T, K, S>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    S: Clone + Send + Sync + 'static,
{
    /// Sets which part of the payload distinguishes two messages with one key. The part is anything that can be a key,
    /// `None`, or empty text. Default: the whole body. [`Handler::payload_mismatch`] chooses what happens to a message
    /// that differs. A function that fails or panics makes its message terminal.
    ///
    /// Use this for payloads with fields that change from one copy of an event to the next, such as the time of
    /// sending. After you add or remove this setting, copies of events that were completed before are duplicates with a
    /// warning, because their payloads can't be compared.
    ///
    /// A closure that takes another part than before makes these copies payload mismatches, because the library can't
    /// detect its change. Drain the queue first, or set
    /// [`PayloadMismatch::Acknowledge`](crate::policy::PayloadMismatch::Acknowledge) until no old copies can arrive. The
    /// library does detect another expression in the attribute's `fingerprint = …`.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)]
    /// # struct OrderPlaced { order_id: String, amount_cents: u64, currency: Option<String> }
    /// let handler = sqs_once::Handler::json::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .fingerprint(|order: &OrderPlaced| (order.amount_cents, order.currency.clone()))
    ///     .call(async |_order: OrderPlaced| {});
    /// ```
    pub fn fingerprint<F, P>(self, part: F) -> Self
    where
        F: Fn(&T) -> P + Send + Sync + 'static,
        P: KeyPart,
    {
        self.fingerprint_with(move |payload| Fingerprint::new(&part(payload)))
    }

    /// Sets the [`fingerprint`](Self::fingerprint) to a part that borrows from its payload.
    pub(super) fn fingerprint_with<F>(mut self, take: F) -> Self
    where
        F: Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync + 'static,
    {
        self.reader.compared = Compared::Part(Arc::new(take));
        self
    }

    /// Compares no payloads, and stores no fingerprint: the key alone decides what is a duplicate. `fingerprint = none` in
    /// the attribute.
    pub fn without_fingerprint(mut self) -> Self {
        self.reader.compared = Compared::Nothing;
        self
    }

    /// Sets the value of the function's [`State`](crate::State) extractor.
    pub fn state<S2>(self, state: S2) -> Keyed<T, K, S2> {
        let reader = self.reader;
        Keyed { reader, state }
    }

    /// Sets the function that handles a message: see [`HandlerFn`].
    pub fn call<H, X>(self, function: H) -> Handler
    where
        H: HandlerFn<T, S, X>,
        X: 'static,
    {
        let bind = erase(self.reader, self.state, function);
        Handler::of(One(bind))
    }

    /// Sets a function that handles all messages of a batch in one call: see [`BatchHandlerFn`].
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use sqs_once::{Batch, Handler};
    ///
    /// let handler = Handler::json::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .call_batch(async |orders: Batch<OrderPlaced>| orders.all_succeeded());
    /// ```
    pub fn call_batch<H, X>(self, function: H) -> BatchHandler
    where
        H: BatchHandlerFn<T, S, X>,
        X: 'static,
    {
        let bind = erase_batch(self.reader, self.state, function);
        Handler::of(Together(bind))
    }
}

/// A handler of any kind.
#[derive(Clone)]
pub(super) struct Bound {
    pub(super) bind: Bind,
    pub(super) settings: HandlerSettings,
}

impl From<Handler> for Bound {
    fn from(handler: Handler) -> Self {
        let (One(bind), settings) = (handler.kind, handler.settings);
        Self { bind, settings }
    }
}

impl From<BatchHandler> for Bound {
    fn from(handler: BatchHandler) -> Self {
        let (Together(bind), settings) = (handler.kind, handler.settings);
        Self { bind, settings }
    }
}

impl Handler<Work> {
    pub(crate) fn into_settings(self) -> (KeySettings, ErrorTypes) {
        (self.settings.keys, self.settings.errors.types)
    }
}

impl From<&str> for Handler<Work> {
    fn from(namespace: &str) -> Self {
        Handler::work().namespace(namespace)
    }
}

impl<Kind> Handler<Kind> {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            settings: HandlerSettings::default(),
        }
    }

    pub(super) fn set(mut self, change: impl FnOnce(&mut HandlerSettings)) -> Self {
        change(&mut self.settings);
        self
    }
}

impl<Kind> fmt::Debug for Handler<Kind> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Keyless<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyless").finish_non_exhaustive()
    }
}

impl<T, K, S: fmt::Debug> fmt::Debug for Keyed<T, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
