//! One claim, from its request to its settlement.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use crate::handler::Running;
use crate::idempotency::{
    Admission, Admitted, Asked, CommitsWith, Completed, Conclusion, Deadline, KeyRules, OtherId,
    PendingSettlement, Refusal, Retries, Until, admit, answer_until, first_of,
};
use crate::key::{BusinessKey, Fingerprint, KeyError};
use crate::store::{Claim, StoreError};
use crate::time::Timestamp;

use super::error::RunError;

/// How long the end of work may take that ends after its deadline.
const LATE: Duration = Duration::from_secs(1);

pub(super) struct KeyedWork<'a> {
    rules: &'a KeyRules,
    pub(super) deadline: Deadline,
    pub(super) claim: Claim,
    /// The other id under which the table may contain the key.
    other_id: Option<OtherId>,
}

impl<'a> KeyedWork<'a> {
    pub(super) fn new(
        rules: &'a KeyRules,
        deadline: Deadline,
        key: &BusinessKey,
        fingerprint: Option<Fingerprint>,
    ) -> Result<Self, KeyError> {
        let id = rules.codec.item_id(key)?;
        Ok(Self {
            rules,
            deadline,
            other_id: rules.other_id(key, &id, fingerprint.as_ref())?,
            claim: rules.new_claim(
                rules.driver.owners().next(),
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
        let cancel_at = self.deadline.cancel_at;
        let mut retries = Retries::new(cancel_at);
        let admitted = loop {
            let Some(answer) = retries.decided(answer_until(cancel_at, self.ask()).await) else {
                continue;
            };
            let Some(pause) = retries.after_error(&answer) else {
                break answer.map_err(RunError::NotClaimed)?;
            };
            pause.ends(self.rules.driver.random.bits()).await;
            self.claim.now = self.rules.driver.clock.now();
        };
        if matches!(admitted, (Admission::Run { .. }, _)) && self.is_late() {
            self.release().await;
            return Err(RunError::NotStarted);
        }
        Ok(admitted)
    }

    /// Returns `None` if the claim now replaces an item whose key is free, and is sent again.
    async fn ask(&mut self) -> Result<Option<Admitted>, StoreError> {
        let (rules, cancel_at) = (self.rules, self.deadline.cancel_at);
        if rules.opens_transactions() {
            let patience = cancel_at.saturating_duration_since(Instant::now());
            let begun = rules.begin(self.claim.clone(), Timestamp::default(), patience);
            return begun.await.map(Some);
        }
        let mut asked = [Asked {
            rules,
            // A retry keeps the item that the claim has seen: it tells whether the claim created its item.
            claim: &mut self.claim,
            other_id: &self.other_id,
            sent_at: Timestamp::default(),
            follows_unknown: &mut false,
            reads_first: &mut false,
        }];
        let (answers, refused) = admit(&mut asked).await;
        // Their leases lapse anyway.
        rules.driver.conclude(refused, cancel_at).await;
        Ok(first_of(answers)?.map(|admission| (admission, None)))
    }

    /// Completes the key, together with the work that commits with it. Returns the reason if the store refused both.
    pub(super) async fn complete(
        &self,
        data: Option<Arc<str>>,
        work: CommitsWith,
    ) -> Result<Option<Refusal>, RunError> {
        let ending = self.rules.completion(&self.claim, data, work);
        match self.settle(ending, usize::MAX).await {
            Ok(Conclusion::Completed(Completed::Confirmed)) => Ok(None),
            Ok(Conclusion::Completed(Completed::ByAnother)) => {
                tracing::warn!(
                    target: "sqs_once::run",
                    "another worker had taken over the key, and completed it: its effect may have happened twice"
                );
                Ok(None)
            }
            Ok(Conclusion::Completed(Completed::LeaseLost)) => Err(RunError::LeaseLost),
            Ok(Conclusion::Refused(refusal)) => Ok(Some(refusal)),
            // Nothing was claimed before, so nothing is released.
            Ok(Conclusion::Conflict {
                disposition,
                reason,
            }) => Err(RunError::Conflict {
                disposition,
                reason,
            }),
            Err(error) if self.rules.commits_effects() => Err(RunError::NotCommitted(error)),
            Err(error) => Err(RunError::NotCompleted(error)),
        }
    }

    /// Releases the key. Sends the release at most twice, because the lease lapses anyway.
    pub(super) async fn release(&self) {
        let Some(ending) = self.rules.release(&self.claim) else {
            return;
        };
        if let Err(error) = self.settle(ending, 2).await {
            tracing::error!(target: "sqs_once::store", error = error.to_string(), "a claim could not be released: its lease lapses");
        }
    }

    /// Renews the lease from the deadline on while code of the work runs.
    pub(super) async fn renewals(&self, running: &Running) -> Renewals {
        let renew = || {
            let (driver, deadline) = (self.rules.driver.clone(), self.deadline);
            let (claim, code) = ((self.claim.id.clone(), self.claim.owner), running.clone());
            let renew = async move {
                // The work is not polled any more from then on.
                sleep_until(deadline.cancel_at).await;
                let running = || match code.executes() {
                    true => vec![claim.clone()],
                    false => Vec::new(),
                };
                driver.renew(deadline, running, |_| {}).await;
            };
            tokio::spawn(renew.in_current_span())
        };
        let renewals = Renewals {
            running: running.clone(),
            task: self.rules.claims_before().then(renew),
        };
        // Tokio polls a new task on this thread, so work that blocks the thread would keep it from its first poll.
        yield_now().await;
        renewals
    }

    fn is_late(&self) -> bool {
        self.until().has_come()
    }

    /// Returns the end of the time for the work.
    pub(super) fn until(&self) -> Until<'a> {
        let clock = &*self.rules.driver.clock;
        Until::new(self.deadline.cancel_at, &self.deadline, clock)
    }

    async fn settle(
        &self,
        ending: PendingSettlement,
        tries: usize,
    ) -> Result<Conclusion, StoreError> {
        // Work that ends late still has its lease, or its transaction.
        let until = self.deadline.answer_by.max(Instant::now() + LATE);
        let send = |ending| async {
            let sent = self.rules.driver.conclude_one(ending, until).await;
            let bits = match &sent.answer {
                Ok(_) => 0,
                Err(_) => self.rules.driver.random.bits(),
            };
            (sent, bits)
        };
        let retries = Retries::new(until).at_most(tries);
        retries.settle(ending, send).await.answer
    }
}

/// The renewals of a lease. They have a task of their own: the code may block the task that runs the work, and the caller
/// may drop the work while code that it started goes on.
pub(super) struct Renewals {
    running: Running,
    /// `None` if nothing was claimed.
    task: Option<JoinHandle<()>>,
}

impl Drop for Renewals {
    fn drop(&mut self) {
        if let Some(task) = &self.task
            && !self.running.executes()
        {
            task.abort();
        }
    }
}
