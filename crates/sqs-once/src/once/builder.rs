//! Setting idempotency up for functions that SQS does not invoke.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::batch::Margins;
use crate::config::EnvSettings;
use crate::env::process_env;
use crate::error::ConfigError;
use crate::idempotency::{Cache, Driver, DriverSettings, Effect};
use crate::key::{KeyCodec, KeySecret, Namespace};
use crate::random::Random;
use crate::store::Store;
use crate::time::{Clock, Timestamp};

use super::Invocation;

/// Makes work happen once in functions that something else than SQS invokes: SNS, EventBridge, a
/// schedule, an asynchronous call. All of them may invoke a function twice for one event.
///
/// [`until`](Idempotency::until) takes the invocation's deadline, and [`run`](Invocation::run) a key and
/// the work. It claims the key, does the work, and records its value; for a duplicate it brings the
/// value that is recorded. What is promised is what a [`Consumer`](crate::Consumer) promises of a handler that
/// returns `()`: at least once, deduplicated. Effects that commit together with the record of their key
/// ([`Writes`](crate::Writes), a transaction of the store) are a consumer's alone. Both know each other's keys
/// where they share table and namespace.
///
/// Make one per process, and clone it where needed. What the code does not set comes from the
/// environment, which is read once, with the first work or by [`init`](Idempotency::init):
///
/// | setting | variable | default |
/// |---|---|---|
/// | [`store`](Idempotency::store) | `SQS_ONCE_TABLE`, a DynamoDB table | none: required |
/// | [`namespace`](Idempotency::namespace) | `SQS_ONCE_NAMESPACE` | none: required |
/// | [`retention`](Idempotency::retention) | `SQS_ONCE_RETENTION` | `28d` |
/// | [`lease_margin`](Idempotency::lease_margin) | `SQS_ONCE_LEASE_MARGIN` | `3s` |
/// | [`deadline_margin`](Idempotency::deadline_margin) | `SQS_ONCE_DEADLINE_MARGIN` | `1s`, at most a tenth of the time |
/// | [`cache`](Idempotency::cache) | | none: every key is asked of the store |
/// | [`readable_keys`](Idempotency::readable_keys) | | off: the table holds a hash of each key |
/// | [`key_codec`](Idempotency::key_codec) | | this library's own: the namespace and the hash |
/// | [`key_secret`](Idempotency::key_secret) | `SQS_ONCE_KEY_SECRET_ARN`: a secret in Secrets Manager, with the feature `secrets` | none: keys are hashed without a secret |
/// | [`also_read`](Idempotency::also_read), [`also_read_nothing`](Idempotency::also_read_nothing) | `SQS_ONCE_ALSO_READ`: `nothing`, `no-secret`, or a secret's ARN | nothing: keys have one id; with a secret, the ids without it |
/// | | `SQS_ONCE_DISABLED`: `true` bypasses the store, for tests | `false` |
///
/// ```no_run
/// use lambda_runtime::{Error, LambdaEvent, service_fn};
/// use serde::{Deserialize, Serialize};
/// use sqs_once::{HandlerError, Idempotency, Once};
///
/// /// An event of EventBridge.
/// #[derive(Deserialize)]
/// struct Event { detail: OrderPlaced }
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// #[derive(Serialize, Deserialize)]
/// struct Receipt { number: String }
///
/// async fn charge(order: &OrderPlaced) -> Result<Receipt, HandlerError> {
///     Ok(Receipt { number: format!("r-{}", order.order_id) })
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::new().namespace("receipts");
///     idempotency.init().await?;
///     let function = service_fn(async |event: LambdaEvent<Event>| {
///         let order = event.payload.detail;
///         let receipt = idempotency
///             .until(event.context.deadline())
///             .run(&order.order_id, || charge(&order))
///             .await?;
///         Ok::<Option<Receipt>, Error>(receipt.into_value())
///     });
///     lambda_runtime::run(function).await
/// }
/// ```
///
/// # When an attempt dies
///
/// Its claim holds until its deadline and the lease margin are over, and an invocation before that is
/// refused ([`RunError::InProgress`](crate::RunError::InProgress)). Lambda tries a failed asynchronous
/// invocation twice more, after one and after two minutes: where the function's timeout is longer than
/// that, give it a destination for failures, or a timeout that is shorter.
#[derive(Clone, Default)]
pub struct Idempotency {
    settings: DriverSettings,
    margins: Margins,
    /// What the settings come to, once somebody asked; shared by clones, made anew by a change.
    core: Arc<OnceCell<Core>>,
}

/// The settings with everything decided.
pub(super) struct Core {
    pub(super) driver: Driver,
    pub(super) margins: Margins,
}

impl Idempotency {
    /// Everything as the environment says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps these keys apart from others' in the same table. A [`Consumer`](crate::Consumer) with this
    /// namespace shares them.
    ///
    /// # Panics
    /// If the name is empty, longer than 255 bytes, or has a `#` in it.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        let namespace = Namespace::new(namespace).unwrap_or_else(|error| panic!("{error}"));
        self.set(|settings| settings.namespace = Some(namespace))
    }

    /// Keeps claims in `store` instead of the DynamoDB table that the environment names.
    #[must_use]
    pub fn store(self, store: impl Store) -> Self {
        self.set(|settings| settings.store = Some(Arc::new(store)))
    }

    /// How long a completed key is recognised as a duplicate. Default: 28 days.
    ///
    /// # Panics
    /// If it is less than a second.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        self.set(|settings| settings.set_retention(retention))
    }

    /// How far the lease of a claim reaches beyond the invocation's deadline. Default: 3 s. It covers
    /// Lambda killing a little late, and clocks that differ.
    #[must_use]
    pub fn lease_margin(mut self, margin: Duration) -> Self {
        self.margins.lease = Some(margin);
        self.set(|_| {})
    }

    /// How long before the invocation's deadline the work is cancelled, so that there is time to record
    /// what was done until then. Default: 1 s, or a tenth of the invocation's time where that is less; at
    /// most half of it.
    ///
    /// # Panics
    /// If it is zero: the work would run until Lambda ends the function, and what it did would not be on record.
    #[must_use]
    pub fn deadline_margin(mut self, margin: Duration) -> Self {
        self.margins.set_deadline(margin);
        self.set(|_| {})
    }

    /// Remembers completed keys in this process, so that their duplicates cost no request. Default: no
    /// cache.
    #[must_use]
    pub fn cache(self, cache: Cache) -> Self {
        self.set(|settings| settings.cache = Some(cache))
    }

    /// Whether the table shows keys as they are. Default: off. As
    /// [`Consumer::readable_keys`](crate::Consumer::readable_keys), with which it has to agree where both
    /// share their keys.
    #[must_use]
    pub fn readable_keys(self, readable: bool) -> Self {
        self.set(|settings| settings.readable_keys = readable)
    }

    /// Where the table keeps each key. Default: under the [namespace](Self::namespace), by its hash. As
    /// [`Consumer::key_codec`](crate::Consumer::key_codec); an invocation's
    /// [fingerprint](Invocation::fingerprint) is not looked at then.
    #[must_use]
    pub fn key_codec(self, codec: KeyCodec) -> Self {
        self.set(|settings| settings.codec = Some(codec))
    }

    /// Where else a key may be known: the codec or the namespace before, or the next. Default: nowhere. As
    /// [`Consumer::also_read`](crate::Consumer::also_read).
    #[must_use]
    pub fn also_read(self, codec: impl Into<KeyCodec>) -> Self {
        self.set(|settings| settings.also_read = Some(Some(codec.into())))
    }

    /// Looks for keys under their own ids only. As
    /// [`Consumer::also_read_nothing`](crate::Consumer::also_read_nothing).
    #[must_use]
    pub fn also_read_nothing(self) -> Self {
        self.set(|settings| settings.also_read = Some(None))
    }

    /// Hashes keys and fingerprints with a secret. Default: the secret that `SQS_ONCE_KEY_SECRET_ARN` names, else none. As
    /// [`Consumer::key_secret`](crate::Consumer::key_secret), with which it has to agree where both share their keys.
    #[must_use]
    pub fn key_secret(self, secret: KeySecret) -> Self {
        self.set(|settings| settings.key_secret = Some(secret))
    }

    /// The clock that leases and expiry are compared with, for tests and simulators.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        self.set(|settings| settings.clock = Some(Arc::new(clock)))
    }

    /// The source of owners and jitter, for tests and simulators.
    #[must_use]
    pub fn random(self, random: impl Random) -> Self {
        self.set(|settings| settings.random = Some(Arc::new(random)))
    }

    /// Reads the environment, unless that was done already, and makes a request to the store. Call it
    /// before the first event: a function that can't work should not start.
    ///
    /// The request is that of [`Consumer::init`](crate::Consumer::init): it opens the connection, and its
    /// failure is one line in the log.
    ///
    /// # Errors
    /// [`ConfigError`] when a setting is missing or malformed.
    pub async fn init(&self) -> Result<(), ConfigError> {
        self.core().await?.driver.connect().await;
        Ok(())
    }

    /// The invocation that ends at `deadline`: `context.deadline()` of Lambda's context, or any other
    /// moment as a `SystemTime` or a [`Timestamp`].
    pub fn until(&self, deadline: impl Into<Timestamp>) -> Invocation<'_> {
        Invocation::new(self, deadline.into())
    }

    pub(super) async fn core(&self) -> Result<&Core, ConfigError> {
        let resolve = || async {
            let env = EnvSettings::read(&process_env)?;
            Ok(Core {
                driver: self.settings.resolve(&env, Effect::APART).await?,
                margins: self.margins.or(&env),
            })
        };
        self.core.get_or_try_init(resolve).await
    }

    fn set(mut self, change: impl FnOnce(&mut DriverSettings)) -> Self {
        change(&mut self.settings);
        self.core = Arc::default();
        self
    }
}

impl std::fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency").finish_non_exhaustive()
    }
}
