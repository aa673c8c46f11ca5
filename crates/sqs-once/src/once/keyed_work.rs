//! One claim, from its request to its settlement.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::idempotency::{
    Admission, Admitted, CommitsWith, Completion, Conclusion, Deadline, Driver, OtherId,
    PendingSettlement, Refusal, Retry, answer_until,
};
use crate::key::{BusinessKey, Fingerprint, KeyError};
use crate::store::{Claim, StoreError};
use crate::time::Timestamp;

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

    /// Claims the key, in a transaction if the work takes one. Returns the transaction, or why the work must not run.
    pub(super) async fn claim(&mut self) -> Result<Admitted, RunError> {
        if self.is_late() {
            return Err(RunError::NotStarted);
        }
        let mut retries = Retries::new(self.driver, self.deadline.cancel_at, usize::MAX);
        let admitted = loop {
            let answer = retries.answer(self.ask()).await;
            if !retries.again(&answer).await {
                break answer.map_err(RunError::NotClaimed)?;
            }
        };
        if matches!(admitted, (Admission::Run { .. }, _)) && self.is_late() {
            self.release().await;
            return Err(RunError::NotStarted);
        }
        Ok(admitted)
    }

    async fn ask(&mut self) -> Result<Admitted, StoreError> {
        self.claim.now = self.driver.clock.now();
        if self.driver.opens_transactions() {
            let cancel_at = self.deadline.cancel_at;
            let patience = cancel_at.saturating_duration_since(Instant::now());
            let claim = self.claim.clone();
            return self
                .driver
                .begin(claim, Timestamp::default(), patience)
                .await;
        }
        // A retry keeps the item that the claim has seen: it tells whether the claim created its item.
        let asked = self.driver.admit_one(&mut self.claim, &self.other_id);
        let admission = asked.await?;
        Ok((admission, None))
    }

    /// Records the effect, together with the work that commits with it. Returns the reason if the store refused both.
    pub(super) async fn complete(
        &self,
        data: Option<Arc<str>>,
        work: CommitsWith,
    ) -> Result<Option<Refusal>, RunError> {
        let ending = self.driver.completion(&self.claim, data, work);
        match self.settle(ending, usize::MAX).await {
            Ok(Conclusion::Completed(Completion::Recorded)) => Ok(None),
            Ok(Conclusion::Completed(Completion::RecordedByAnother)) => {
                tracing::warn!(
                    target: "sqs_once::run",
                    "another worker had taken over the key, and completed it: its effect may have happened twice"
                );
                Ok(None)
            }
            Ok(Conclusion::Completed(Completion::LeaseLost)) => Err(RunError::LeaseLost),
            Ok(Conclusion::Refused(refusal)) => Ok(Some(refusal)),
            // Nothing was claimed before, so nothing is released.
            Ok(Conclusion::Conflict {
                disposition,
                reason,
            }) => Err(RunError::Conflict {
                disposition,
                reason,
            }),
            Err(error) if self.driver.commits_effects() => Err(RunError::NotCommitted(error)),
            Err(error) => Err(RunError::NotRecorded(error)),
        }
    }

    /// Releases the key. Sends the release at most twice, because the lease lapses anyway.
    pub(super) async fn release(&self) {
        let Some(ending) = self.driver.release(&self.claim) else {
            return;
        };
        if let Err(error) = self.settle(ending, 2).await {
            tracing::error!(target: "sqs_once::store", error = error.to_string(), "a claim could not be released: its lease lapses");
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline.cancel_at
    }

    async fn settle(
        &self,
        mut ending: PendingSettlement,
        tries: usize,
    ) -> Result<Conclusion, StoreError> {
        let mut retries = Retries::new(self.driver, self.deadline.answer_by, tries);
        loop {
            let answer = retries.answer(self.driver.conclude_one(&mut ending)).await;
            if !ending.is_repeatable() || !retries.again(&answer).await {
                return answer;
            }
        }
    }
}

/// Repeats a request to the store with growing pauses, as long as a retry may help.
struct Retries<'a> {
    driver: &'a Driver,
    until: Instant,
    tries: usize,
    last: Option<Retry>,
}

impl<'a> Retries<'a> {
    fn new(driver: &'a Driver, until: Instant, tries: usize) -> Self {
        Self {
            driver,
            until,
            tries,
            last: None,
        }
    }

    /// Waits for an answer until the retries end.
    async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        answer_until(self.until, asked).await
    }

    /// Returns whether to send the request again, after the pause before it.
    async fn again<T>(&mut self, answer: &Result<T, StoreError>) -> bool {
        self.tries -= 1;
        self.last = match answer {
            Err(error) if self.tries > 0 => Retry::after_error(self.last, error, self.until),
            _ => None,
        };
        match self.last {
            Some(retry) => sleep_until(retry.at(self.driver.random.bits())).await,
            None => return false,
        }
        true
    }
}
