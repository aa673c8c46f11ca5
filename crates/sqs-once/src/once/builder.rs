//! The builder of idempotency for functions that SQS does not invoke.

use std::future::{Ready, ready};
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::config::EnvSettings;
use crate::consumer::{Handler, Work};
use crate::env::process_env;
use crate::error::ConfigError;
use crate::handler::ErrorTypes;
use crate::idempotency::{
    HandlerType, KeyRules, KeySettings, Mode, StoreSettings, shared_settings,
};
use crate::time::Timestamp;

use super::{Invocation, Once, RunError};

/// Makes work happen once in functions that are invoked by something other than SQS: SNS, EventBridge, a schedule, an
/// asynchronous call. All of them may invoke a function twice for one event.
///
/// [`until`](Idempotency::until) takes the invocation's deadline, and [`run`](Invocation::run) a key and the work. `run`
/// returns the work's value, and for a duplicate the completion's. The effect decides the promise, as in a
/// [`Consumer`](crate::Consumer):
///
/// | effect | call | promise |
/// |---|---|---|
/// | anything | [`run`](Invocation::run): claims the key, does the work, completes the key with its value | at least once, deduplicated |
/// | in DynamoDB | [`run`](Invocation::run), with work that returns [`Writes`](crate::Writes) | effectively once |
/// | in a transaction of the store, such as PostgreSQL | [`run_in_transaction`](Invocation::run_in_transaction) | effectively once |
///
/// A handler and an `Idempotency` with the same table and namespace share their keys.
///
/// Create one per process, and clone it as needed. Settings that the code leaves out come from the environment, which
/// is read once, with the first work or by [`init`](Idempotency::init). An invalid setting fails there with a
/// [`ConfigError`], whether it comes from the code or from the environment. Store and namespace are required:
/// `SQS_ONCE_TABLE` names a DynamoDB table, and `SQS_ONCE_NAMESPACE` the namespace. `SQS_ONCE_DISABLED=true` bypasses
/// the store, for tests. Each method states its variable and its default.
///
/// ```no_run
/// use lambda_runtime::{Error, LambdaEvent, service_fn};
/// use serde::{Deserialize, Serialize};
/// use sqs_once::once::Once;
/// use sqs_once::{HandlerError, Idempotency};
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
///     let idempotency = Idempotency::new("receipts");
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
/// Its claim holds until its deadline plus the lease margin. An invocation before that is refused
/// ([`RunError::InProgress`](crate::once::RunError::InProgress)). `Writes` need no claim, and the claim of a transaction
/// ends with it. Lambda retries a failed asynchronous invocation twice, after one and after two minutes. If the function's
/// timeout is longer than that, configure a destination for failures or a shorter timeout.
#[derive(Clone)]
#[must_use = "idempotency does nothing until it runs work: `idempotency.until(deadline).run(key, work)`"]
pub struct Idempotency {
    keys: KeySettings,
    pub(super) errors: ErrorTypes,
    shared: StoreSettings,
    rules: Arc<RulesOfEffects>,
}

/// The rules for each way in which an effect commits, resolved from the settings on first use. Clones share them; changing
/// a setting starts with new ones.
#[derive(Default)]
struct RulesOfEffects {
    apart: OnceCell<KeyRules>,
    writes: OnceCell<KeyRules>,
    transaction: OnceCell<KeyRules>,
}

impl Idempotency {
    /// Creates a builder with the namespace or its settings ([`Handler::work`]). The namespace separates its keys from others in
    /// the same table.
    pub fn new(work: impl Into<Handler<Work>>) -> Self {
        let (keys, errors) = work.into().into_settings();
        Self {
            keys,
            // A handler in which it runs then knows that the outcome of such an error is unknown.
            errors: errors.and(&ErrorTypes::of::<RunError>()),
            shared: StoreSettings::default(),
            rules: Arc::default(),
        }
    }

    shared_settings!();

    /// Reads the environment, if it was not read before, and sends a request to the store. Call it before the first
    /// event, so that a misconfigured function does not start.
    ///
    /// The request is the same as in [`Consumer::init`](crate::Consumer::init): it opens the connection, and its
    /// failure is only logged.
    ///
    /// # Errors
    /// [`ConfigError`] if a setting is missing or malformed.
    pub async fn init(&self) -> Result<(), ConfigError> {
        self.rules(Mode::ClaimFirst)
            .await?
            .connect(Vec::new())
            .await;
        Ok(())
    }

    /// Returns the invocation that ends at `deadline`: `context.deadline()` of Lambda's context, or any other time as a
    /// `SystemTime` or a [`Timestamp`].
    pub fn until(&self, deadline: impl Into<Timestamp>) -> Invocation<'_> {
        Invocation::new(self, deadline.into())
    }

    /// Does not compile: the compiler's error names [`until`](Self::until).
    #[doc(hidden)]
    pub fn run<K: ?Sized, W: OfInvocation>(
        &self,
        _key: &K,
        _work: W,
    ) -> Ready<Result<Once<()>, RunError>> {
        ready(Err(RunError::NoDeadline))
    }

    pub(super) async fn rules(&self, mode: Mode) -> Result<&KeyRules, ConfigError> {
        let (keys, shared, rules) = (&self.keys, &self.shared, &*self.rules);
        let read = || EnvSettings::read(&process_env);
        // Boxed, because every call's future would have their sizes.
        let apart = || {
            Box::pin(async {
                let rules = keys.resolve(shared, &read()?, Mode::ClaimFirst).await?;
                // A namespace in the code may be that of a handler on purpose.
                let may_share = keys.namespace.is_some();
                rules.check_namesakes(HandlerType::of::<Self>(), may_share)?;
                Ok(rules)
            })
        };
        let apart = rules.apart.get_or_try_init(apart);
        let cell = match mode {
            Mode::Writes => &rules.writes,
            Mode::Transaction => &rules.transaction,
            _ => return apart.await,
        };
        let beside = || {
            Box::pin(async {
                // No default store has transactions, so its error would mislead.
                if mode == Mode::Transaction && shared.store.is_none() {
                    return keys.resolve(shared, &read()?, mode).await;
                }
                let apart = apart.await?;
                keys.resolve_beside(apart, shared, &read()?, mode).await
            })
        };
        cell.get_or_try_init(beside).await
    }

    pub(crate) fn set_shared(mut self, change: impl FnOnce(&mut StoreSettings)) -> Self {
        change(&mut self.shared);
        self.rules = Arc::default();
        self
    }
}

/// No type implements it.
#[diagnostic::on_unimplemented(
    message = "an invocation runs work, not `Idempotency`: call `until` first",
    label = "the deadline is not known",
    note = "write `idempotency.until(context.deadline()).run(key, work)`, with Lambda's context"
)]
pub trait OfInvocation {}

impl std::fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency").finish_non_exhaustive()
    }
}
