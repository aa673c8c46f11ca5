//! Steps on a few keys, and whether the store answers each as the protocol decides.

use std::collections::HashMap;
use std::fmt::Debug;

use crate::idempotency::{Admission, Refusal, on_claimed};
use crate::key::ItemId;
use crate::random::{OsRandom, Random};
use crate::store::{
    Answers, Claim, Claimed, Committed, Item, Owner, Seen, Settled, Settlement, Settling, Status,
    Writes,
};

use super::Fixture;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Sends these claims.
    Claim(Vec<Claim>),
    /// Sends these claims over the current items.
    Over(Vec<Claim>),
    /// Sends a copy of the owner's last claim that was written.
    Copy(Owner),
    Settle(Vec<Settlement>),
    Read(Vec<ItemId>),
    /// Another program writes an item.
    Plant(Item),
    Delete(ItemId),
}

/// What an answer tells its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Runs,
    InProgress,
    Duplicate,
    /// A duplicate whose payload could not be compared.
    Uncompared,
    Mismatch,
    UnknownStatus,
    Written,
    Refused,
}

use Verdict::{Duplicate, InProgress, Mismatch, Refused, Runs, Uncompared, UnknownStatus, Written};

/// How the steps are sent. A store may send a single entry in another way than several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// Between two entries for other, new keys.
    pub(super) in_company: bool,
    /// Commits through [`AtomicWrites`](crate::store::AtomicWrites), without other writes.
    pub(super) in_transaction: bool,
}

/// # Panics
/// Always, with the steps that led to this.
pub(super) fn broken_promise<'a>(
    promise: &str,
    how: &str,
    broken: &str,
    steps: impl Iterator<Item = &'a Step>,
) -> ! {
    let steps = steps.enumerate();
    let steps: String = steps.map(|(n, it)| format!("\n {n}. {it:?}")).collect();
    panic!("promise broken: {promise} ({how}): {broken}\nat the end of:{steps}")
}

/// The store under test, and the items that it should have.
pub(super) struct World<'a, F> {
    fixture: &'a F,
    way: Way,
    items: HashMap<ItemId, Item>,
    /// The last claim of each owner that was written.
    claims: HashMap<Owner, Claim>,
    /// The settlements that were written.
    settlements: Vec<Settlement>,
}

/// The answer that the protocol decides, and another that means the same.
type Decided<T> = (T, Option<T>);

/// The verdict on an entry, or what differs.
type Answered = Result<Option<Verdict>, String>;

impl<'a, F: Fixture> World<'a, F> {
    pub(super) fn new(fixture: &'a F, way: Way) -> Self {
        Self {
            fixture,
            way,
            items: HashMap::new(),
            claims: HashMap::new(),
            settlements: Vec::new(),
        }
    }

    /// Takes a step, and compares the answers and the items with the protocol's decisions.
    pub(super) async fn after(&mut self, step: &Step) -> Answered {
        match step {
            Step::Claim(claims) => return self.claim(claims.clone()).await,
            Step::Over(claims) => {
                let claims = claims.iter().map(|claim| self.over(claim)).collect();
                return self.claim(claims).await;
            }
            Step::Copy(owner) => {
                if let Some(claim) = self.claims.get(owner).cloned() {
                    return self.claim(vec![claim]).await;
                }
            }
            Step::Settle(settlements) => return self.settle(settlements.clone()).await,
            Step::Read(ids) => self.items_are(ids).await?,
            Step::Plant(item) => {
                self.fixture.plant(item.clone()).await;
                self.items.insert(item.id.clone(), item.clone());
            }
            Step::Delete(id) => {
                self.fixture.delete(id).await;
                self.items.remove(id);
            }
        }
        Ok(None)
    }

    fn over(&self, claim: &Claim) -> Claim {
        let mut over = claim.clone();
        over.seen = self.items.get(&claim.id).map_or(Seen::Nothing, Seen::of);
        over
    }

    async fn claim(&mut self, mut claims: Vec<Claim>) -> Answered {
        let place = self.join(&mut claims, |claim| {
            (claim.id, claim.owner) = stranger();
        });
        let answers = self.fixture.store().claim(&claims).await;
        let decided = claims.iter().map(|claim| self.decide(claim));
        let answers = same(answers, decided.collect())?;
        let ids: Vec<_> = claims.iter().map(|claim| claim.id.clone()).collect();
        self.items_are(&ids).await?;
        let answers = claims.iter().zip(answers).skip(place);
        let mut verdicts = answers.map(|(claim, answer)| match on_claimed(claim, &answer) {
            Admission::Run { .. } => Runs,
            Admission::Refused(refusal) => match refusal {
                Refusal::InProgress { .. } => InProgress,
                Refusal::Duplicate { is_compared, .. } if is_compared => Duplicate,
                Refusal::Duplicate { .. } => Uncompared,
                Refusal::PayloadMismatch { .. } => Mismatch,
                Refusal::OutcomeUnknown | Refusal::UnknownStatus(_) => UnknownStatus,
            },
        });
        Ok(verdicts.next())
    }

    /// The protocol's decision on a claim. A store may also recognise a claim that was written before.
    fn decide(&mut self, claim: &Claim) -> Decided<Claimed> {
        let existing = self.items.get(&claim.id);
        if let Some(item) = existing.filter(|_| !claim.admitted_by(existing)) {
            let refused = Claimed::Refused(Box::new(item.clone()));
            let fence = item.fence.unwrap_or_default();
            let is_own = matches!(on_claimed(claim, &refused), Admission::Run { .. });
            return (refused, is_own.then_some(Claimed::Written { fence }));
        }
        let item = claim.write(existing);
        let fence = item.fence.unwrap_or_default();
        self.items.insert(claim.id.clone(), item);
        self.claims.insert(claim.owner, claim.clone());
        (Claimed::Written { fence }, None)
    }

    async fn settle(&mut self, mut settlements: Vec<Settlement>) -> Answered {
        let place = self.join(&mut settlements, |settlement| {
            (settlement.id, settlement.owner) = stranger();
        });
        let answers = self.send(&settlements).await;
        let decided = settlements.iter().map(|one| self.decide_settlement(one));
        let answers = same(answers, decided.collect())?;
        let ids: Vec<_> = settlements.iter().map(|one| one.id.clone()).collect();
        self.items_are(&ids).await?;
        Ok(answers.get(place).map(|answer| match answer {
            Settled::Written => Written,
            Settled::Refused(_) => Refused,
        }))
    }

    /// The protocol's decision on a settlement. A store may also recognise one that was written before.
    fn decide_settlement(&mut self, settlement: &Settlement) -> Decided<Settled> {
        let existing = self.items.get(&settlement.id);
        if settlement.admitted_by(existing) {
            let item = settlement.write(existing);
            self.items.insert(item.id.clone(), item);
            self.settlements.push(settlement.clone());
            return (Settled::Written, None);
        }
        let is_own = existing.is_some_and(|item| {
            item.status == Status::Completed && item.owner == Some(settlement.owner)
        });
        let is_copy = is_own && self.settlements.contains(settlement);
        let refused = Settled::Refused(existing.cloned().map(Box::new));
        (refused, is_copy.then_some(Settled::Written))
    }

    async fn send(&self, settlements: &[Settlement]) -> Answers<Settled> {
        let store = self.fixture.store();
        let atomic = store.atomic_writes().filter(|_| self.way.in_transaction);
        let writes = Writes::new();
        let committed = match (atomic, settlements) {
            (
                Some(atomic),
                [
                    settlement @ Settlement {
                        settling: Settling::Commit(_),
                        ..
                    },
                ],
            ) => {
                vec![atomic.commit(settlement, &writes).await]
            }
            (
                Some(atomic),
                [
                    Settlement {
                        settling: Settling::Commit(_),
                        ..
                    },
                    ..,
                ],
            ) => {
                let commits: Vec<_> = settlements.iter().map(|one| (one, &writes)).collect();
                atomic.commit_all(&commits).await
            }
            _ => return store.settle(settlements).await,
        };
        let settled = committed.into_iter().map(|committed| {
            committed.map(|committed| match committed {
                Committed::Written => Settled::Written,
                Committed::Refused(item) => Settled::Refused(Some(item)),
                // No commit is refused without an item.
                Committed::Conflict(_) => Settled::Refused(None),
            })
        });
        settled.collect()
    }

    /// Adds an entry for another key before and after these, if the way wants it. Returns the place of the first entry.
    fn join<E: Clone>(&self, entries: &mut Vec<E>, estrange: impl Fn(&mut E)) -> usize {
        if !self.way.in_company {
            return 0;
        }
        let [mut before, mut after] = [entries[0].clone(), entries[0].clone()];
        estrange(&mut before);
        estrange(&mut after);
        entries.insert(0, before);
        entries.push(after);
        1
    }

    /// Checks that the store reads the items that it should have, and that they are in its table.
    async fn items_are(&self, ids: &[ItemId]) -> Result<(), String> {
        let expected = ids.iter().map(|id| self.items.get(id).cloned());
        let expected: Vec<_> = expected.collect();
        for (id, expected) in ids.iter().zip(&expected).take(4) {
            let found = self.fixture.peek(id).await;
            if found != *expected {
                return Err(differs("the item", &found, expected));
            }
        }
        let read = self.fixture.store().read(ids).await;
        let expected = expected.into_iter().map(|item| (item, None));
        same(read, expected.collect()).map(drop)
    }
}

/// An id and an owner that no other step uses.
pub(super) fn stranger() -> (ItemId, Owner) {
    let bits = OsRandom.bits();
    let id = ItemId::from_stored(format!("conformance#{bits:064x}"));
    (id, Owner::from_bits(bits))
}

/// Returns the decided answers if each answer means the same.
fn same<T: Debug + PartialEq>(
    answers: Answers<T>,
    decided: Vec<Decided<T>>,
) -> Result<Vec<T>, String> {
    if answers.len() != decided.len() {
        let (sent, answered) = (decided.len(), answers.len());
        return Err(format!("a slice of {sent} has {answered} answers"));
    }
    let answers = answers.into_iter().zip(decided).enumerate();
    let same = answers.map(|(n, (found, (expected, or)))| match found {
        Ok(found) if found == expected || Some(&found) == or.as_ref() => Ok(expected),
        Ok(found) => Err(differs(&format!("answer {n}"), &found, &expected)),
        Err(error) => Err(format!("the store does not answer: {error}")),
    });
    same.collect()
}

fn differs(what: &str, found: &dyn Debug, expected: &dyn Debug) -> String {
    format!("{what} differs\n found:    {found:?}\n expected: {expected:?}")
}
