//! One claim, from its request to its settlement.

use std::future::pending;
use std::sync::Arc;

use tokio::time::Instant;

use crate::handler::Running;
use crate::idempotency::{
    Admission, Admitted, Asked, CommitsWith, Completed, Conclusion, Deadline, KeyRules, OtherId,
    PendingSettlement, Refusal, Retries, Until, admit, answer_until, first_of,
};
use crate::key::{BusinessKey, Fingerprint, KeyError};
use crate::store::{Claim, StoreError};
use crate::time::Timestamp;

use super::error::RunError;

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

    /// Waits until code of the work has ended. Renews the lease meanwhile.
    pub(super) async fn held_while(&self, code: &Running) {
        let claim = (self.claim.id.clone(), self.claim.owner);
        let running = || match code.count() {
            0 => Vec::new(),
            _ => vec![claim.clone()],
        };
        let renewals = async {
            if self.rules.claims_before() {
                self.rules
                    .driver
                    .renew(self.deadline, running, |_| {})
                    .await;
            }
            pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = code.ended() => {}
            () = renewals => {}
        }
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
        let until = self.deadline.answer_by;
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
