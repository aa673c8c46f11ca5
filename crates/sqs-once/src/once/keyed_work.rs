//! One claim, from its request to its settlement.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::idempotency::{
    Admission, CommitsWith, Completion, Conclusion, Deadline, Driver, OtherId, PendingSettlement,
    Refusal, Retry,
};
use crate::key::{BusinessKey, Fingerprint, KeyError};
use crate::store::{Answers, Claim, StoreError, StoreErrorKind};

use super::error::RunError;

pub(super) struct KeyedWork<'a> {
    driver: &'a Driver,
    pub(super) deadline: Deadline,
    pub(super) claim: Claim,
    /// The other id under which the table may contain the key.
    other_id: Option<OtherId>,
}

impl<'a> KeyedWork<'a> {
    pub(super) fn new(
        driver: &'a Driver,
        deadline: Deadline,
        key: &BusinessKey,
        fingerprint: Option<Fingerprint>,
    ) -> Result<Self, KeyError> {
        let id = driver.codec.item_id(key)?;
        Ok(Self {
            driver,
            deadline,
            other_id: driver.other_id(key, &id, fingerprint.as_ref())?,
            claim: driver.new_claim(
                driver.owners().next(),
                id,
                fingerprint,
                deadline.lease_until,
            ),
        })
    }

    /// Claims the key. Returns the reason if the work must not run.
    pub(super) async fn claim(&self) -> Result<Option<Refusal>, RunError> {
        if self.is_late() {
            return Err(RunError::NotStarted);
        }
        let ask = || async {
            let mut claim = Claim {
                now: self.driver.clock.now(),
                ..self.claim.clone()
            };
            vec![self.driver.admit_one(&mut claim, &self.other_id).await]
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

    pub(super) async fn complete(&self, data: Option<Arc<str>>) -> Result<(), RunError> {
        let ending = self
            .driver
            .completion(&self.claim, data, CommitsWith::Nothing);
        let settled = self.settle(&ending, usize::MAX).await;
        match settled.map_err(RunError::NotRecorded)? {
            Conclusion::Completed(Completion::Recorded) => Ok(()),
            Conclusion::Completed(Completion::RecordedByAnother) => {
                tracing::warn!(
                    target: "sqs_once::run",
                    "another worker had taken over the key, and completed it: its effect may have happened twice"
                );
                Ok(())
            }
            // Unreachable: no writes commit with this work, so none can be refused.
            _ => Err(RunError::LeaseLost),
        }
    }

    /// Releases the key. Sends the release at most twice, because the lease lapses anyway.
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

    async fn settle(
        &self,
        ending: &PendingSettlement,
        tries: usize,
    ) -> Result<Conclusion, StoreError> {
        let ending = [ending];
        let ask = || self.driver.settle(&ending);
        self.retried(self.deadline.answer_by, tries, ask).await
    }

    /// Repeats a request to the store with growing pauses, as long as a retry may help.
    async fn retried<T, F>(
        &self,
        until: Instant,
        mut tries: usize,
        ask: impl Fn() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Answers<T>>,
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
