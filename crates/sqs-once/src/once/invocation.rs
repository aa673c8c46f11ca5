//! The work of one invocation.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::task::Poll;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, error_span, info, warn};

use crate::error::chain;
use crate::handler::{Done, HandlerError, IdempotencyToken, Running};
use crate::idempotency::Refusal;
use crate::key::{BusinessKey, Fingerprint, ItemId, KeyPart};
use crate::report::{Outcome, Report};
use crate::time::Timestamp;

use super::builder::Idempotency;
use super::error::RunError;
use super::keyed_work::KeyedWork;

/// One invocation of a function, made by [`Idempotency::until`].
#[derive(Clone, Debug)]
pub struct Invocation<'a> {
    idempotency: &'a Idempotency,
    ends_at: Timestamp,
    fingerprint: Option<Fingerprint>,
}

/// The result of work that was done, now or earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// The work was done now, and its completion is recorded.
    Processed(T),
    /// The work was done before, and was not repeated. The value is the recorded one. It is `None` if it was too large to be
    /// recorded or can't be read as a `T`, with a warning in the log, or if a [`Consumer`](crate::Consumer) processed the key
    /// and recorded nothing.
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
    /// A consumer uses the fingerprint of the whole body, [`Fingerprint::from_body`], unless it chooses a part.
    #[must_use]
    pub fn fingerprint(self, fingerprint: Fingerprint) -> Self {
        Self {
            fingerprint: Some(fingerprint),
            ..self
        }
    }

    /// Does the work of a key, if it was not done before.
    ///
    /// The work's value is recorded as JSON, 256 KiB at most. A value that is larger or can't be serialized is left out
    /// with a warning in the log, because the effect is done.
    ///
    /// Work that fails or panics releases its key, so that the next invocation can start at once. A panic is resumed in the
    /// caller. Shortly before the deadline the work is cancelled. Its key becomes free when its lease lapses, because its
    /// effect may be in flight. The same applies if the caller drops the future of `run`.
    ///
    /// Code that the work started with [`spawn_blocking`](crate::spawn_blocking) can't be cancelled. `run` returns when
    /// that code has ended, not at the deadline. Lambda ends the function at its timeout, before the lease lapses.
    ///
    /// # Errors
    /// [`RunError`] shows whether the work ran. Let the invocation fail with it.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use sqs_once::{HandlerError, Idempotency, MemoryStore, Once};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), sqs_once::RunError> {
    /// let idempotency = Idempotency::new().namespace("receipts").store(MemoryStore::new());
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
    pub async fn run<K, W, F, T, E>(&self, key: &K, work: W) -> Result<Once<T>, RunError>
    where
        K: KeyPart + ?Sized,
        W: FnOnce() -> F,
        F: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
    {
        self.run_with_token(key, |_| work()).await
    }

    /// Does the work like [`run`](Self::run), and passes it the event's [`IdempotencyToken`] for services that
    /// deduplicate by themselves. The token closes the one window that a claim can't: the process dies after the effect
    /// and before the effect is recorded.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_with_token<K, W, F, T, E>(&self, key: &K, work: W) -> Result<Once<T>, RunError>
    where
        K: KeyPart + ?Sized,
        W: FnOnce(IdempotencyToken) -> F,
        F: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
    {
        if self.ends_at == Timestamp::default() {
            return Err(RunError::NoDeadline);
        }
        let key = BusinessKey::new(key)?;
        let driver = self.idempotency.driver().await?;
        let deadline = driver.deadline(self.ends_at);
        let fingerprint = self.fingerprint.clone();
        let attempt = KeyedWork::new(driver, deadline, &key, fingerprint)?;
        let begun = Instant::now();
        let span = error_span!("run", key = attempt.claim.id.short());
        let running = Running::current().map_or_else(Running::default, |outer| outer.part());
        let attempted = async {
            if let Some(refusal) = attempt.claim().await? {
                return refused(refusal);
            }
            let cancel_at = attempt.deadline.cancel_at;
            let ended = {
                let work = running
                    .clone()
                    .scope(async { work(IdempotencyToken::of(&driver.namespace, &key)).await });
                let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
                // Checks the clock, because the timer is late if other tasks held the thread. After the deadline the
                // work must not be polled again.
                let in_time = poll_fn(|context| match Instant::now() < cancel_at {
                    true => work.as_mut().poll(context).map(Some),
                    false => Poll::Ready(None),
                });
                timeout_at(cancel_at, in_time).await
            };
            // If `run` returned earlier, the caller would ask for the next event, and the lease could lapse while the
            // code runs.
            running.ended().await;
            let Ok(Some(ended)) = ended else {
                return Err(RunError::Cancelled);
            };
            match ended {
                Ok(Ok(value)) => {
                    let done = Done::recording(&value);
                    if let Some(reason) = done.left_out {
                        warn!(target: "sqs_once::run", reason, "a duplicate will bring no value");
                    }
                    attempt.complete(done.data).await?;
                    Ok(Once::Processed(value))
                }
                Ok(Err(error)) => {
                    attempt.release().await;
                    Err(RunError::Work(error.into().into_source()))
                }
                Err(panic) => {
                    attempt.release().await;
                    resume_unwind(panic)
                }
            }
        };
        let result = attempted.instrument(span).await;
        log(&attempt.claim.id, begun, &result);
        result
    }
}

fn refused<T: DeserializeOwned>(refusal: Refusal) -> Result<Once<T>, RunError> {
    match refusal {
        Refusal::Duplicate { data } => Ok(Once::Duplicate(data.and_then(|data| {
            let value = serde_json::from_str(&data);
            if value.is_err() {
                // serde's message may quote the value, which must not be logged.
                warn!(target: "sqs_once::run", "the value recorded for the key does not fit the type that the function returns");
            }
            value.ok()
        }))),
        Refusal::InProgress { lease_until } => Err(RunError::InProgress { lease_until }),
        Refusal::PayloadMismatch => Err(RunError::PayloadMismatch),
        Refusal::UnknownStatus(status) => Err(RunError::UnknownStatus(status)),
    }
}

/// Logs one line for each run. The panic hook reports panics.
fn log<T>(item: &ItemId, begun: Instant, result: &Result<Once<T>, RunError>) {
    let outcome = match result {
        Ok(Once::Processed(_)) => Outcome::Processed,
        Ok(Once::Duplicate(_)) => Outcome::Duplicate,
        Err(RunError::InProgress { .. }) => Outcome::InProgress,
        Err(_) => Outcome::Failed,
    };
    // Shortened like a record's reason, because an error's text can have any length.
    let reason = |error| Report::new(outcome).because(chain(error)).reason;
    let reason = result.as_ref().err().and_then(|error| reason(error));
    macro_rules! line {
        ($level:ident) => {
            $level!(
                target: "sqs_once::run",
                outcome = outcome.as_str(),
                key = item.short(),
                duration_ms = begun.elapsed().as_secs_f64() * 1000.0,
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
