//! The work of one invocation.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::panicking;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, error_span, info, warn};

use crate::error::{ConfigError, chain};
use crate::handler::{Done, HandlerError, IdempotencyToken, Running};
use crate::idempotency::{Admission, CommitsWith, Mode, Refusal, UNCOMPARED, Until};
use crate::key::{BusinessKey, Fingerprint, ItemId, KeyPart};
use crate::report::{Outcome, shortened};
use crate::store::FromTransaction;
use crate::telemetry::millis;
use crate::time::Timestamp;

use super::builder::Idempotency;
use super::error::RunError;
use super::keyed_work::KeyedWork;
use super::outcome::WorkOutcome;

/// What a store makes a work's transaction from.
type Handle = Arc<dyn Any + Send + Sync>;

/// One invocation of a function, made by [`Idempotency::until`].
#[derive(Clone, Debug)]
#[must_use = "an invocation does nothing until it runs work: `.run(key, work)`"]
pub struct Invocation<'a> {
    idempotency: &'a Idempotency,
    ends_at: Timestamp,
    fingerprint: Option<Fingerprint>,
}

/// The result of work that was done, now or earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// The work was done now, and its key is completed.
    Processed(T),
    /// The work was done before, and its effect was not repeated. The value is the completion's. It is `None` if it was too
    /// large to be stored or can't be read as a `T`, with a warning in the log, or if a [`Consumer`](crate::Consumer)
    /// completed the key without a value.
    Duplicate(Option<T>),
}

impl<T> Once<T> {
    /// Returns whether the work was done before.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate(_))
    }

    /// Returns the work's value, or `None` if a duplicate has no usable value.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Processed(value) => Some(value),
            Self::Duplicate(value) => value,
        }
    }
}

impl<'a> Invocation<'a> {
    pub(super) fn new(idempotency: &'a Idempotency, ends_at: Timestamp) -> Self {
        Self {
            idempotency,
            ends_at,
            fingerprint: None,
        }
    }

    /// Sets the fingerprint that distinguishes two events with one key. Work is refused if its key was completed with
    /// another fingerprint. Default: no fingerprint.
    ///
    /// A handler uses the fingerprint of the whole body, [`Fingerprint::from_body`], unless it chooses a part.
    pub fn fingerprint(self, fingerprint: Fingerprint) -> Self {
        Self {
            fingerprint: Some(fingerprint),
            ..self
        }
    }

    /// Does the work of a key, if it was not done before.
    ///
    /// The success of the work decides how its key is completed, see [`WorkOutcome`]:
    ///
    /// - A value is returned, and stored for duplicates as JSON, 256 KiB at most. A value that is larger or can't be
    ///   serialized is left out with a warning in the log, because the effect is done.
    /// - [`Writes`](crate::Writes), or `(Writes, value)`: the writes commit in one transaction with the completion of the
    ///   key, so they happen once. The key is not claimed first. Concurrent duplicates may both run, but only one commits,
    ///   and the others return its value.
    ///
    /// Work that fails or panics releases its key, so that the next invocation can start at once. A panic is resumed in the
    /// caller. Shortly before the deadline the work is cancelled. Its key becomes free when its lease lapses, because its
    /// effect may be in flight. The same applies if the caller drops the future of `run`.
    ///
    /// Code that the work started with [`spawn_blocking`](crate::spawn_blocking) can't be cancelled. `run` returns when
    /// that code has ended, not at the deadline. Its lease is renewed meanwhile if the process lives on after the function's
    /// timeout, for 15 minutes at most: also if the caller drops the future of `run`, and while the work blocks its own
    /// thread of a multi-threaded runtime.
    ///
    /// # Errors
    /// [`RunError`] shows whether the work ran. Let the invocation fail with it.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use sqs_once::store::MemoryStore;
    /// use sqs_once::once::Once;
    /// use sqs_once::{HandlerError, Idempotency};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), sqs_once::once::RunError> {
    /// let idempotency = Idempotency::new("receipts").store(MemoryStore::new());
    /// let invocation = idempotency.until(SystemTime::now() + Duration::from_secs(30));
    ///
    /// let charge = || async { Ok::<_, HandlerError>("receipt 7".to_owned()) };
    /// assert_eq!(invocation.run("order-7", charge).await?, Once::Processed("receipt 7".to_owned()));
    /// let charge = || async { Ok::<_, HandlerError>("never called".to_owned()) };
    /// assert_eq!(
    ///     invocation.run("order-7", charge).await?,
    ///     Once::Duplicate(Some("receipt 7".to_owned())),
    /// );
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The same with an effect in DynamoDB:
    ///
    /// ```
    /// # #[cfg(feature = "dynamodb")] {
    /// use std::time::{Duration, SystemTime};
    /// use sqs_once::sdk::dynamodb::types::{AttributeValue, Update};
    /// use sqs_once::testing::TestStore;
    /// use sqs_once::once::Once;
    /// use sqs_once::{HandlerError, Idempotency, Writes};
    ///
    /// /// Books a payment. The balance changes when the writes commit.
    /// async fn book(payment: &str, cents: u64) -> Result<(Writes, String), HandlerError> {
    ///     let balance = Update::builder()
    ///         .table_name("balances")
    ///         .key("account", AttributeValue::S("a-7".to_owned()))
    ///         .update_expression("ADD cents :cents")
    ///         .expression_attribute_values(":cents", AttributeValue::N(cents.to_string()))
    ///         .build()?;
    ///     Ok((Writes::new().update(balance), format!("receipt of {payment}")))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), sqs_once::once::RunError> {
    /// let store = TestStore::default(); // `DynamoDbStore` in production, the default
    /// let idempotency = Idempotency::new("payments").store(store.clone());
    /// let invocation = idempotency.until(SystemTime::now() + Duration::from_secs(30));
    ///
    /// let booked = invocation.run("p-7", || book("p-7", 1299)).await?;
    /// assert_eq!(booked, Once::Processed("receipt of p-7".to_owned()));
    /// let again = invocation.run("p-7", || book("p-7", 1299)).await?;
    /// assert_eq!(again, Once::Duplicate(Some("receipt of p-7".to_owned())));
    /// assert_eq!(store.writes().len(), 1);
    /// # Ok(())
    /// # }
    /// # }
    /// ```
    pub async fn run<K, W, F, V, T, E>(&self, key: &K, work: W) -> Result<Once<T>, RunError>
    where
        K: KeyPart + ?Sized,
        W: FnOnce() -> F,
        F: Future<Output = Result<V, E>>,
        V: WorkOutcome<T>,
        E: Into<HandlerError>,
    {
        self.run_with_token(key, |_| work()).await
    }

    /// Does the work like [`run`](Self::run), and passes it the event's [`IdempotencyToken`] for services that
    /// deduplicate by themselves. The token closes the one window that a claim can't: the process dies after the effect
    /// and before its key is completed.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_with_token<K, W, F, V, T, E>(
        &self,
        key: &K,
        work: W,
    ) -> Result<Once<T>, RunError>
    where
        K: KeyPart + ?Sized,
        W: FnOnce(IdempotencyToken) -> F,
        F: Future<Output = Result<V, E>>,
        V: WorkOutcome<T>,
        E: Into<HandlerError>,
    {
        let work = |token, _| Ok(async move { work(token).await.map_err(Into::into)?.into_done() });
        self.once(key, Mode::of(V::WRITES, false), V::from_completion, work)
            .await
    }

    /// Does the work in a transaction of the store, such as the `Transaction` of the crate `sqs-once-postgres`.
    ///
    /// The store claims the key in the transaction. The work's changes and the completion of the key, with the work's
    /// value, commit together, or none does. They do not commit if the work fails, panics or is cancelled, or if the caller
    /// drops the future. A concurrent attempt with the key waits for the transaction to end, until shortly before its own
    /// deadline. Then it is a duplicate, or does the work.
    ///
    /// The success of the work is a value that implements serde's `Serialize` and `Deserialize`. Effects outside the
    /// transaction can repeat. Pass the token on with them.
    ///
    /// # Errors
    /// As [`run`](Self::run). [`RunError::Config`] if the store has no transactions, or not those of `X`.
    ///
    /// ```no_run
    /// # mod sqs_once_postgres {
    /// #     pub struct Transaction;
    /// #     impl Transaction {
    /// #         pub async fn execute(&self, _: &str, _: &[&i64]) -> std::io::Result<u64> { Ok(1) }
    /// #     }
    /// #     impl sqs_once::store::FromTransaction for Transaction {
    /// #         fn from_transaction(_: std::sync::Arc<dyn std::any::Any + Send + Sync>) -> Option<Self> { None }
    /// #     }
    /// # }
    /// use sqs_once::once::{Invocation, Once, RunError};
    /// use sqs_once::HandlerError;
    /// use sqs_once_postgres::Transaction;
    ///
    /// /// The invocation is of an `Idempotency` with a `PostgresStore`.
    /// async fn book(invocation: Invocation<'_>, payment: &str, cents: i64) -> Result<Once<()>, RunError> {
    ///     let work = async |tx: Transaction, _token| {
    ///         tx.execute("UPDATE balance SET cents = cents + $1", &[&cents]).await?;
    ///         Ok::<(), HandlerError>(())
    ///     };
    ///     invocation.run_in_transaction(payment, work).await
    /// }
    /// # fn main() {}
    /// ```
    pub async fn run_in_transaction<X, K, W, F, T, E>(
        &self,
        key: &K,
        work: W,
    ) -> Result<Once<T>, RunError>
    where
        X: FromTransaction,
        K: KeyPart + ?Sized,
        W: FnOnce(X, IdempotencyToken) -> F,
        F: Future<Output = Result<T, E>>,
        T: WorkOutcome<T>,
        E: Into<HandlerError>,
    {
        let work = |token, handle: Option<Handle>| {
            let transaction = handle.and_then(X::from_transaction).ok_or_else(|| {
                ConfigError::unsupported(
                    "the setting `store`",
                    "has other transactions than the work takes",
                    "the store of that transaction",
                )
            })?;
            Ok(async move {
                let value = work(transaction, token).await.map_err(Into::into)?;
                value.into_done()
            })
        };
        self.once(key, Mode::Transaction, T::from_completion, work)
            .await
    }

    /// Does work whose effect commits in this way. `recorded` reads the value of a duplicate.
    async fn once<K, W, F, T>(
        &self,
        key: &K,
        mode: Mode,
        recorded: impl Fn(&str) -> serde_json::Result<T>,
        work: W,
    ) -> Result<Once<T>, RunError>
    where
        K: KeyPart + ?Sized,
        W: FnOnce(IdempotencyToken, Option<Handle>) -> Result<F, ConfigError>,
        F: Future<Output = Result<(Done, T), HandlerError>>,
    {
        if self.ends_at == Timestamp::default() {
            return Err(RunError::NoDeadline);
        }
        let key = BusinessKey::new(key)?;
        let rules = self.idempotency.rules(mode).await?;
        let deadline = rules.driver.deadline(self.ends_at);
        let fingerprint = self.fingerprint.clone();
        let mut attempt = KeyedWork::new(rules, deadline, &key, fingerprint)?;
        let mut ends = Ends {
            item: attempt.claim.id.clone(),
            begun: Instant::now(),
            is_logged: false,
        };
        let span = error_span!("run", key = attempt.claim.id.short());
        let running = Running::current().map_or_else(Running::default, |outer| outer.part());
        let attempted = async {
            let transaction = match attempt.claim().await? {
                (Admission::Run { .. }, transaction) => transaction,
                (Admission::Refused(refusal), _) => return refused(refusal, recorded),
            };
            let token = IdempotencyToken::of(&rules.namespace, &key);
            let work = work(token, transaction.as_ref().map(|open| open.handle()))?;
            let work = running.clone().scope(work);
            let _renewals = attempt.renewals(&running).await;
            let ended = in_time(work, &running, attempt.until()).await;
            // If `run` returned earlier, the caller would ask for the next event while the code runs.
            running.ended().await;
            match ended {
                // Rolls a transaction back.
                None => Err(RunError::Cancelled),
                Some(Ok(Ok((done, value)))) => {
                    let work = CommitsWith::new(done.writes, transaction);
                    if let Some(refusal) = attempt.complete(done.data, work).await? {
                        return refused(refusal, recorded);
                    }
                    if let Some(reason) = done.left_out {
                        warn!(target: "sqs_once::run", reason, "a duplicate will bring no value");
                    }
                    Ok(Once::Processed(value))
                }
                Some(Ok(Err(error))) => {
                    attempt.release().await;
                    let error = error.decided_by(&self.idempotency.errors);
                    Err(RunError::Work {
                        disposition: error.disposition(),
                        outcome_unknown: error.is_outcome_unknown(),
                        error: error.into_source(),
                    })
                }
                Some(Err(panic)) => {
                    attempt.release().await;
                    resume_unwind(panic)
                }
            }
        };
        let result = attempted.instrument(span).await;
        ends.log(Some(&result));
        result
    }
}

/// Runs work until its deadline. Checks the clocks, because the timer is late if other tasks held the thread or the process
/// was frozen: after the deadline the work must not be polled again.
async fn in_time<T>(
    work: impl Future<Output = T>,
    running: &Running,
    until: Until<'_>,
) -> Option<Result<T, Box<dyn Any + Send>>> {
    let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
    let in_time = poll_fn(|context| {
        // Before it looks at the clock, because the work may block, and the process may be frozen in between.
        let _polled = running.polled();
        match until.has_come() {
            true => Poll::Ready(None),
            false => work.as_mut().poll(context).map(Some),
        }
    });
    timeout_at(until.at, in_time).await.ok().flatten()
}

fn refused<T>(
    refusal: Refusal,
    recorded: impl Fn(&str) -> serde_json::Result<T>,
) -> Result<Once<T>, RunError> {
    match refusal {
        Refusal::Duplicate { data, is_compared } => {
            if !is_compared {
                warn!(target: "sqs_once::run", "{UNCOMPARED}");
            }
            let value = data.map(|data| recorded(&data)).transpose();
            if value.is_err() {
                // serde's message may quote the value, which must not be logged.
                warn!(target: "sqs_once::run", "the value in the completion does not fit the type that the function returns");
            }
            Ok(Once::Duplicate(value.unwrap_or_default()))
        }
        Refusal::InProgress { lease_until } => Err(RunError::InProgress { lease_until }),
        // Only a handler has the setting for this.
        Refusal::OutcomeUnknown => Err(RunError::InProgress { lease_until: None }),
        Refusal::PayloadMismatch { .. } => Err(RunError::PayloadMismatch),
        Refusal::UnknownStatus(status) => Err(RunError::UnknownStatus(status)),
    }
}

/// Logs one line for each run, also if its caller drops it. The panic hook reports panics.
struct Ends {
    item: ItemId,
    begun: Instant,
    is_logged: bool,
}

impl Ends {
    /// Logs the result. `None` if the caller has dropped the run.
    fn log<T>(&mut self, result: Option<&Result<Once<T>, RunError>>) {
        self.is_logged = true;
        let outcome = match result {
            Some(Ok(Once::Processed(_))) => Outcome::Processed,
            Some(Ok(Once::Duplicate(_))) => Outcome::Duplicate,
            Some(Err(RunError::InProgress { .. })) => Outcome::InProgress,
            Some(Err(_)) | None => Outcome::Failed,
        };
        let reason = match result {
            // Shortened like the reason in a message's log line, because an error's text can have any length.
            Some(result) => result.as_ref().err().map(|error| shortened(chain(error))),
            None => Some("its caller dropped it".to_owned()),
        };
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    target: "sqs_once::run",
                    outcome = outcome.as_str(),
                    key = self.item.short(),
                    duration_ms = millis(self.begun.elapsed()),
                    reason,
                    "work {}", outcome.as_str().replace('_', " "),
                )
            };
        }
        match outcome {
            Outcome::Failed => line!(warn),
            _ => line!(info),
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.is_logged && !panicking() {
            self.log::<()>(None);
        }
    }
}
