//! Setting idempotency up for functions that SQS does not invoke.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::config::EnvSettings;
use crate::env::process_env;
use crate::error::ConfigError;
use crate::idempotency::{Driver, DriverSettings, Effect, shared_settings};
use crate::time::Timestamp;

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
/// environment, which is read once, with the first work or by [`init`](Idempotency::init). An invalid setting fails there
/// with a [`ConfigError`], whether it comes from the code or from the environment. Store and namespace are required:
/// `SQS_ONCE_TABLE` names a DynamoDB table, and `SQS_ONCE_NAMESPACE` the namespace. `SQS_ONCE_DISABLED=true` bypasses the
/// store, for tests. Each method states its variable and its default.
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
    /// Made of the settings on first use. Clones share it; a change of the settings makes a new one.
    driver: Arc<OnceCell<Driver>>,
}

impl Idempotency {
    /// Creates a builder whose settings come from the environment.
    pub fn new() -> Self {
        Self::default()
    }

    shared_settings!();

    /// Reads the environment, unless that was done already, and makes a request to the store. Call it
    /// before the first event: a function that can't work should not start.
    ///
    /// The request is that of [`Consumer::init`](crate::Consumer::init): it opens the connection, and its
    /// failure is one line in the log.
    ///
    /// # Errors
    /// [`ConfigError`] when a setting is missing or malformed.
    pub async fn init(&self) -> Result<(), ConfigError> {
        self.driver().await?.connect().await;
        Ok(())
    }

    /// The invocation that ends at `deadline`: `context.deadline()` of Lambda's context, or any other
    /// moment as a `SystemTime` or a [`Timestamp`].
    pub fn until(&self, deadline: impl Into<Timestamp>) -> Invocation<'_> {
        Invocation::new(self, deadline.into())
    }

    pub(super) async fn driver(&self) -> Result<&Driver, ConfigError> {
        let resolve = || async {
            let env = EnvSettings::read(&process_env)?;
            self.settings.resolve(&env, Effect::APART).await
        };
        self.driver.get_or_try_init(resolve).await
    }

    pub(crate) fn set_shared(mut self, change: impl FnOnce(&mut DriverSettings)) -> Self {
        change(&mut self.settings);
        self.driver = Arc::default();
        self
    }
}

impl std::fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency").finish_non_exhaustive()
    }
}
