//! One claim, from its question to its end.

use std::slice;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::handler::IdempotencyToken;
use crate::idempotency::{
    Admission, CommitsWith, Conclusion, Deadline, Driver, Ending, OtherId, Refusal, Retry,
};
use crate::key::{BusinessKey, Fingerprint, ItemId, KeyError};
use crate::store::{Claim, StoreError, StoreErrorKind};

use super::error::RunError;

/// One attempt at the work of one key.
pub(super) struct KeyedWork<'a> {
    driver: &'a Driver,
    deadline: Deadline,
    key: &'a BusinessKey,
    claim: Claim,
    /// The other id under which the key may be known.
    other_id: Option<OtherId>,
}

impl<'a> KeyedWork<'a> {
    pub(super) fn new(
        driver: &'a Driver,
        deadline: Deadline,
        key: &'a BusinessKey,
        fingerprint: Option<Fingerprint>,
    ) -> Result<Self, KeyError> {
        let id = driver.item_id(key)?;
        Ok(Self {
            driver,
            deadline,
            key,
            other_id: driver.other_id(key, &id, fingerprint.as_ref())?,
            claim: driver.new_claim(id, fingerprint, deadline.lease_until),
        })
    }

    pub(super) fn item(&self) -> &ItemId {
        &self.claim.id
    }

    pub(super) fn token(&self) -> IdempotencyToken {
        IdempotencyToken::of(&self.driver.namespace, self.key)
    }

    pub(super) fn cancel_at(&self) -> Instant {
        self.deadline.cancel_at
    }

    /// Claims the key. A refusal says why the work must not run.
    pub(super) async fn claim(&self) -> Result<Option<Refusal>, RunError> {
        if self.is_late() {
            return Err(RunError::NotStarted);
        }
        let ask = || async {
            let claim = Claim {
                now: self.driver.clock.now(),
                ..self.claim.clone()
            };
            let other_id = slice::from_ref(&self.other_id);
            self.driver.admit(&mut [claim], other_id).await
        };
        let admission = self.retried(self.deadline.cancel_at, usize::MAX, ask).await;
        match admission.map_err(RunError::NotClaimed)? {
            Admission::Refused(refusal) => Ok(Some(refusal)),
            Admission::Run { .. } if self.is_late() => {
                self.release().await;
                Err(RunError::NotStarted)
            }
            Admission::Run { .. } => Ok(None),
        }
    }

    /// Records the effect as done.
    pub(super) async fn complete(&self, data: Option<Arc<str>>) -> Result<(), RunError> {
        let ending = self
            .driver
            .completion(&self.claim, data, CommitsWith::Nothing);
        let settled = self.settle(&ending, usize::MAX).await;
        match settled.map_err(RunError::NotRecorded)? {
            Conclusion::Recorded => Ok(()),
            Conclusion::RecordedByAnother => {
                tracing::warn!(
                    target: "sqs_once::run",
                    "another worker had taken over the key meanwhile, and completed it: its effect may have happened twice"
                );
                Ok(())
            }
            // Nothing commits with this work, to be refused.
            _ => Err(RunError::LeaseLost),
        }
    }

    /// Gives the key up. It is sent twice at most: without it the lease lapses by itself.
    pub(super) async fn release(&self) {
        let Some(ending) = self.driver.release(&self.claim) else {
            return;
        };
        if let Err(error) = self.settle(&ending, 2).await {
            tracing::error!(target: "sqs_once::store", error = error.to_string(), "a claim could not be released: its lease lapses");
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline.cancel_at
    }

    async fn settle(&self, ending: &Ending, tries: usize) -> Result<Conclusion, StoreError> {
        let ending = [ending];
        let ask = || self.driver.settle(&ending);
        self.retried(self.deadline.answer_by, tries, ask).await
    }

    /// Asks the store again for as long as that may help, with growing pauses.
    async fn retried<T, F>(
        &self,
        until: Instant,
        mut tries: usize,
        ask: impl Fn() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Vec<Result<T, StoreError>>>,
    {
        let mut retry = None;
        loop {
            let answered = timeout_at(until, ask()).await;
            let answer = answered.ok().and_then(|answers| answers.into_iter().next());
            let answer = answer.unwrap_or_else(|| Err(unanswered()));
            tries -= 1;
            retry = match &answer {
                Err(error) if tries > 0 => Retry::after_error(retry, error, until),
                _ => None,
            };
            let Some(retry) = retry else { return answer };
            sleep_until(retry.at(self.driver)).await;
        }
    }
}

fn unanswered() -> StoreError {
    StoreError::new(
        StoreErrorKind::Unanswered,
        "the deadline came before its answer",
    )
}
