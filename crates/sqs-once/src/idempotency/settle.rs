//! Sends settlements by value. One that may be sent again comes back with its answer.

use std::sync::Arc;

use tokio::time::Instant;

use crate::error::Disposition;
use crate::key::Fingerprint;
use crate::store::{
    Committed, Item, OpenTransaction, Settled, Settlement, Settling, StoreError, Writes,
};
use crate::time::Timestamp;

use super::cache::CompletedKeys;
use super::deadline::{answer_until, answers_until, too_late};
use super::driver::{all_of, incapable, unanswered};
use super::{Completed, Driver, Refusal, on_committed, on_completed};

/// The work that commits together with a completion.
pub(crate) enum CommitsWith {
    /// Nothing: the effect has happened.
    Nothing,
    Writes(Arc<Writes>),
    Transaction(Box<dyn OpenTransaction>),
    /// The transaction of a batch handler. The settlement of another record brings it.
    TransactionOfBatch,
}

impl CommitsWith {
    pub(crate) fn new(
        writes: Option<Arc<Writes>>,
        transaction: Option<Box<dyn OpenTransaction>>,
    ) -> Self {
        match (writes, transaction) {
            (Some(writes), _) => Self::Writes(writes),
            (None, Some(transaction)) => Self::Transaction(transaction),
            (None, None) => Self::Nothing,
        }
    }
}

/// A settlement, with the work that commits together with it.
pub(crate) struct PendingSettlement {
    pub(super) ending: Ending,
    pub(super) work: CommitsWith,
}

/// The end of a claim, or the completion of a key without a claim.
pub(super) struct Ending {
    pub(super) settlement: Settlement,
    /// The fingerprint that the claim wrote.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Whether the key was claimed before, in a request of its own.
    pub(super) is_claimed: bool,
    /// The cache of the key's consumer.
    pub(super) completed: Option<Arc<CompletedKeys>>,
    /// The cache's time before any request.
    pub(super) asked_at: Timestamp,
}

/// The answer to a settlement.
pub(crate) struct Sent {
    pub(crate) answer: Result<Conclusion, StoreError>,
    /// The settlement, if it may be sent again. A transaction commits once.
    pub(crate) again: Option<PendingSettlement>,
}

impl Sent {
    /// The answer to a settlement that was not sent.
    pub(crate) fn too_late() -> Self {
        Self {
            answer: Err(too_late()),
            again: None,
        }
    }
}

pub(crate) enum Conclusion {
    /// The effect happened.
    Completed(Completed),
    /// The effect did not happen, because of the existing item.
    Refused(Refusal),
    /// The effect did not happen, because a condition in the handler's writes was not met.
    Conflict {
        disposition: Disposition,
        reason: String,
    },
}

impl PendingSettlement {
    /// Returns the settlement that releases the claim instead, if there is one.
    pub(crate) fn into_release(self) -> Option<Self> {
        let settlement = Settlement {
            settling: Settling::Release,
            ..self.ending.settlement
        };
        let ending = Ending {
            settlement,
            ..self.ending
        };
        let work = CommitsWith::Nothing;
        ending.is_claimed.then_some(Self { ending, work })
    }

    pub(crate) fn is_release(&self) -> bool {
        matches!(self.ending.settlement.settling, Settling::Release)
    }

    /// Returns whether it commits together with work.
    pub(crate) fn commits_work(&self) -> bool {
        !matches!(self.work, CommitsWith::Nothing)
    }

    /// Returns what the store writes over this item.
    #[cfg(feature = "testing")]
    pub(crate) fn write(&self, existing: &Item) -> Item {
        self.ending.settlement.write(Some(existing))
    }
}

impl Ending {
    fn keep(&self, item: impl FnOnce() -> Item, now: Timestamp) {
        if let Some(completed) = &self.completed {
            completed.keep(item(), self.asked_at, now);
        }
    }

    fn item(&self) -> Item {
        Item {
            fingerprint: self.fingerprint.clone(),
            ..self.settlement.write(None)
        }
    }

    fn sent(self, answer: Result<Conclusion, StoreError>, work: CommitsWith) -> Sent {
        Sent {
            answer,
            again: Some(PendingSettlement { ending: self, work }),
        }
    }
}

impl Driver {
    /// Sends settlements once, and waits until this time for the answers, which have their order. None of them has work, or
    /// all have writes, or one transaction commits all.
    pub(crate) async fn conclude(
        &self,
        endings: Vec<PendingSettlement>,
        until: Instant,
    ) -> Vec<Sent> {
        let (mut alone, mut with_writes, mut inside) = (Vec::new(), Vec::new(), Vec::new());
        let mut transaction = None;
        for PendingSettlement { ending, work } in endings {
            match work {
                CommitsWith::Nothing => alone.push(ending),
                CommitsWith::Writes(writes) => with_writes.push((ending, writes)),
                CommitsWith::TransactionOfBatch => inside.push(ending),
                CommitsWith::Transaction(its) => {
                    transaction = Some(its);
                    inside.push(ending);
                }
            }
        }
        let mut sent = self.settle(alone, until).await;
        sent.extend(self.commit(with_writes, until).await);
        if !inside.is_empty() {
            sent.extend(self.commit_in(transaction, inside, until).await);
        }
        sent
    }

    /// Sends a settlement once.
    pub(crate) async fn conclude_one(&self, ending: PendingSettlement, until: Instant) -> Sent {
        let sent = self.conclude(vec![ending], until).await.pop();
        sent.unwrap_or_else(|| Sent {
            answer: Err(unanswered()),
            again: None,
        })
    }

    /// Sends settlements without work in one request.
    async fn settle(&self, endings: Vec<Ending>, until: Instant) -> Vec<Sent> {
        if endings.is_empty() {
            return Vec::new();
        }
        let (count, settlements) = (endings.len(), settlements(&endings));
        let answers = answers_until(until, count, self.store.settle(&settlements)).await;
        let now = self.clock.now();
        let sent = endings.into_iter().zip(all_of(count, answers));
        sent.map(|(ending, answer)| {
            match &answer {
                Ok(Settled::Written) => ending.keep(|| ending.item(), now),
                Ok(Settled::Refused(Some(item))) => ending.keep(|| (**item).clone(), now),
                Ok(Settled::Refused(None)) | Err(_) => {}
            }
            let completed = |settled| on_completed(&ending.settlement, &settled);
            let answer = answer.map(|settled| Conclusion::Completed(completed(settled)));
            ending.sent(answer, CommitsWith::Nothing)
        })
        .collect()
    }

    /// Commits each settlement with its writes.
    async fn commit(&self, endings: Vec<(Ending, Arc<Writes>)>, until: Instant) -> Vec<Sent> {
        if endings.is_empty() {
            return Vec::new();
        }
        let commits = endings.iter();
        let commits: Vec<_> = commits
            .map(|(ending, writes)| (&ending.settlement, &**writes))
            .collect();
        let committed = async {
            match (self.store.atomic_writes(), &commits[..]) {
                (Some(atomic), &[(settlement, writes)]) => {
                    vec![atomic.commit(settlement, writes).await]
                }
                (Some(atomic), commits) => atomic.commit_all(commits).await,
                (None, commits) => vec![Err(incapable("commit writes")); commits.len()],
            }
        };
        let count = endings.len();
        let answers = all_of(count, answers_until(until, count, committed).await);
        let sent = endings.into_iter().zip(answers);
        sent.map(|((ending, writes), answer)| {
            let answer = answer.map(|committed| self.committed(&ending, &writes, committed));
            ending.sent(answer, CommitsWith::Writes(writes))
        })
        .collect()
    }

    fn committed(&self, ending: &Ending, writes: &Writes, committed: Committed) -> Conclusion {
        let refused_by = match committed {
            Committed::Written => None,
            Committed::Refused(item) => Some(*item),
            Committed::Conflict(conflict) => {
                let (disposition, reason) = writes.disposition_of(&conflict);
                return Conclusion::Conflict {
                    disposition,
                    reason,
                };
            }
        };
        let (owner, fingerprint) = (ending.settlement.owner, ending.fingerprint.as_ref());
        let recorded = on_committed(owner, fingerprint, refused_by.as_ref());
        let item = || refused_by.unwrap_or_else(|| ending.item());
        ending.keep(item, self.clock.now());
        match recorded {
            Ok(()) => Conclusion::Completed(Completed::Confirmed),
            Err(refusal) => Conclusion::Refused(refusal),
        }
    }

    /// Commits a transaction with its settlements.
    async fn commit_in(
        &self,
        transaction: Option<Box<dyn OpenTransaction>>,
        endings: Vec<Ending>,
        until: Instant,
    ) -> Vec<Sent> {
        let committed = match transaction {
            Some(transaction) => {
                answer_until(until, transaction.commit(settlements(&endings))).await
            }
            // The record that was to bring it has ended without.
            None => Err(incapable("commit without the transaction of its batch")),
        };
        let now = self.clock.now();
        let sent = endings.into_iter().map(|ending| {
            let answer = committed.clone().map(|()| {
                ending.keep(|| ending.item(), now);
                Conclusion::Completed(Completed::Confirmed)
            });
            Sent {
                answer,
                again: None,
            }
        });
        sent.collect()
    }
}

fn settlements(endings: &[Ending]) -> Vec<Settlement> {
    endings.iter().map(|one| one.settlement.clone()).collect()
}
