//! The store that a process uses.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use sqs_once::Writes;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{
    AtomicWrites, Claim, Claimed, Committed, Fence, Item, Settled, Settlement, Settling, Status,
    Store, StoreError, StoreErrorKind, StoreFuture, Timestamp, Transactions,
};
use tokio::time::timeout;

use super::counts::Count;
use super::ids::{Ids, key_of};
use super::mutant::Mutant;
use super::network::{Broken, PATIENCE};
use super::process::Process;
use super::table::Table;
use super::world::World;

/// The service side of the store in one schedule. Returns a client for a process, which sends its requests through the
/// world's network. It reports each write that it carries out ([`Witness::changed`](super::witness::Witness::changed))
/// and each lookup to the witness.
pub(crate) type Backend = dyn Fn(&Arc<World>, &Process) -> Box<dyn Store> + Send + Sync;

#[derive(Clone)]
pub(crate) struct TableClient {
    pub(crate) world: Arc<World>,
    pub(crate) table: Arc<Table>,
    pub(crate) process: Process,
}

impl TableClient {
    pub(crate) fn backend(table: Arc<Table>) -> Box<Backend> {
        Box::new(move |world, process| {
            Box::new(Self {
                world: Arc::clone(world),
                table: Arc::clone(&table),
                process: process.clone(),
            })
        })
    }

    /// Sends a request. If no answer arrives, it sends the same request again, like the SDK.
    async fn send<A: Send + 'static>(
        &self,
        what: impl Display,
        carry_out: impl FnOnce(&World, &Table) -> A + Clone + Send + 'static,
    ) -> Result<A, StoreError> {
        let mut tries = 1 + u32::from(self.world.plan.resends);
        loop {
            let carry_out = carry_out.clone();
            let (world, table) = (Arc::clone(&self.world), Arc::clone(&self.table));
            let carry_out = move || carry_out(&world, &table);
            let passed = self.world.network.pass(&self.process, &what, carry_out);
            let kind = match timeout(PATIENCE, passed).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(Broken::Throttled | Broken::Conflict)) => StoreErrorKind::Throttled,
                Ok(Err(Broken::Connection | Broken::Failed)) | Err(_) => StoreErrorKind::Unanswered,
            };
            tries -= 1;
            if tries == 0 {
                return Err(StoreError::new(kind, "the simulation wants it"));
            }
        }
    }

    /// PostgreSQL does not tell which row has refused a write. The store reads the row afterwards, when it may have changed.
    async fn read_refused<A>(
        &self,
        answers: Vec<Result<A, StoreError>>,
        refused: impl Fn(&Result<A, StoreError>) -> Option<ItemId>,
        answer: impl Fn(Option<Item>) -> Result<A, StoreError>,
    ) -> Vec<Result<A, StoreError>> {
        let ids: Vec<_> = answers.iter().filter_map(&refused).collect();
        if !self.world.plan.is_postgres || ids.is_empty() {
            return answers;
        }
        let mut found = self.read(&ids).await.into_iter();
        let answers = answers.into_iter().map(|one| match refused(&one) {
            Some(_) => found.next().unwrap_or(Ok(None)).and_then(&answer),
            None => one,
        });
        answers.collect()
    }
}

impl Store for TableClient {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            let (all, is_old) = (claims.to_vec(), self.process.is_old);
            let carry_out = move |world: &World, table: &Table| {
                let claim = |claim| table.claim(world, claim, is_old);
                all.iter().map(claim).collect()
            };
            let what = Named("claims", || claims.iter().map(|claim| &claim.id));
            let answers = each(claims.len(), self.send(what, carry_out).await);
            let refused = |answer: &_| match answer {
                Ok(Claimed::Refused(item)) => Some(item.id.clone()),
                _ => None,
            };
            let gone = || {
                Err(StoreError::new(
                    StoreErrorKind::Throttled,
                    "its row is gone",
                ))
            };
            self.read_refused(answers, refused, |item| {
                item.map_or_else(gone, |item| Ok(Claimed::Refused(Box::new(item))))
            })
            .await
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let all = settlements.to_vec();
            let carry_out = move |world: &World, table: &Table| {
                let settle = |one| table.settle(world, one, false);
                all.iter().map(settle).collect()
            };
            let what = match settlements {
                all if all.iter().all(is_release) => "releases",
                all if all.iter().all(is_renewal) => "renews",
                _ => "records",
            };
            let what = Named(what, || settlements.iter().map(|one| &one.id));
            let answers = each(settlements.len(), self.send(what, carry_out).await);
            let refused = |answer: &_| match answer {
                Ok(Settled::Refused(Some(item))) => Some(item.id.clone()),
                _ => None,
            };
            self.read_refused(answers, refused, |item| {
                Ok(Settled::Refused(item.map(Box::new)))
            })
            .await
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move {
            let (all, process) = (ids.to_vec(), self.process.clone());
            let carry_out = move |world: &World, table: &Table| {
                let read = |id| table.read(world, &process, id);
                all.iter().map(read).collect()
            };
            let what = Named("looks up", || ids.iter());
            each(ids.len(), self.send(what, carry_out).await)
        })
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        (!self.world.plan.is_postgres).then_some(self as _)
    }

    fn transactions(&self) -> Option<&dyn Transactions> {
        Some(self)
    }
}

impl AtomicWrites for TableClient {
    fn commit<'a>(
        &'a self,
        settlement: &'a Settlement,
        _: &'a Writes,
    ) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(async move {
            let (process, commit) = (self.process.clone(), settlement.clone());
            let carry_out =
                move |world: &World, table: &Table| table.commit(world, &process, &commit);
            let what = Named("commits", || std::iter::once(&settlement.id));
            let committed = self.send(what, carry_out).await?;
            committed.ok_or_else(|| StoreError::new(StoreErrorKind::Other, "it is not a commit"))
        })
    }
}

pub(crate) struct Named<F>(pub(crate) &'static str, pub(crate) F);

impl<'a, F: Fn() -> I, I: Iterator<Item = &'a ItemId>> Display for Named<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)?;
        (self.1)().try_for_each(|id| write!(f, " k{}", key_of(id)))
    }
}

fn each<T>(entries: usize, answer: Result<Vec<T>, StoreError>) -> Vec<Result<T, StoreError>> {
    match answer {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) => (0..entries).map(|_| Err(error.clone())).collect(),
    }
}

fn is_release(settlement: &Settlement) -> bool {
    settlement.settling == Settling::Release
}

fn is_renewal(settlement: &Settlement) -> bool {
    matches!(settlement.settling, Settling::Renew { .. })
}

/// The scheme that a fingerprint names.
fn scheme(fingerprint: Option<&Fingerprint>) -> Option<&str> {
    Some(fingerprint?.as_str().rsplit_once(':')?.0)
}

/// A fingerprint as if it had the scheme of a claim's.
fn of_scheme(fingerprint: &Fingerprint, claim: &Claim) -> Fingerprint {
    let scheme = scheme(claim.fingerprint.as_ref()).unwrap_or_default();
    let digest = fingerprint.as_str().rsplit(':').next().unwrap_or_default();
    Fingerprint::from_stored(format!("{scheme}:{digest}"))
}

/// Whether a claim goes on: a renewal with a lease of zero releases it.
fn renews(settlement: &Settlement) -> bool {
    let Settling::Renew { lease_until, .. } = settlement.settling else {
        return false;
    };
    lease_until != Timestamp::default()
}

/// Whether a renewal only makes the lease longer.
fn prolongs(settlement: &Settlement) -> bool {
    let is_of_lease = matches!(settlement.settling, Settling::Renew { fence: None, .. });
    is_of_lease && renews(settlement)
}

/// The store that a consumer gets: any store, whose answers the witness sees first.
pub(crate) struct Watched {
    pub(crate) store: Box<dyn Store>,
    pub(crate) world: Arc<World>,
    pub(crate) process: Process,
    /// What the other ids held before the claims, for [`Mutant::OtherIdReadFirst`].
    pub(crate) read_first: Mutex<HashMap<ItemId, Option<Item>>>,
}

impl Watched {
    /// Reads the other ids of keys before their claims.
    async fn read_first(&self, claims: &[Claim]) {
        let Some(other) = self.process.also_reads() else {
            return;
        };
        let id = |claim: &Claim| other.id_of(key_of(&claim.id)).clone();
        let ids: Vec<_> = claims.iter().map(id).collect();
        let found = self.store.read(&ids).await.into_iter();
        let found = ids.into_iter().zip(found.map(Result::unwrap_or_default));
        self.read_first.lock().extend(found);
    }

    /// The process knows whether it owns keys, or waits for an answer.
    fn decide(&self, keys: &[usize], knows: bool) {
        let mut witness = self.world.witness();
        for key in keys {
            witness.decides(&self.process, *key, knows);
        }
    }

    fn heard(&self, claim: &Claim, answer: &Result<Claimed, StoreError>) {
        // A takeover under the other id gives no handler a key.
        if claim.lease_until == Timestamp::default() {
            return;
        }
        let (key, mut witness) = (key_of(&claim.id), self.world.witness());
        match answer {
            Ok(Claimed::Written { fence }) => {
                witness.told(&self.process, key, claim.owner, *fence, false);
            }
            Ok(Claimed::Refused(item)) if item.status == Status::Completed => {
                witness.counts.add(Count::Recognised);
                if scheme(item.fingerprint.as_ref()) != scheme(claim.fingerprint.as_ref()) {
                    witness.counts.add(Count::OtherSchemes);
                }
            }
            Ok(Claimed::Refused(item))
                if item.owner == Some(claim.owner)
                    && item.lease_until == Some(claim.lease_until) =>
            {
                let fence = item.fence.unwrap_or_default();
                witness.told(&self.process, key, claim.owner, fence, true);
            }
            // The consumer claims again, over this item.
            Ok(Claimed::Refused(item)) if claim.finds_free(item) => {}
            Ok(Claimed::Refused(_)) => witness.counts.add(Count::Refused),
            Err(_) => {}
        }
    }

    fn sends(&self, settlement: &Settlement) {
        let mut witness = self.world.witness();
        if renews(settlement) {
            return;
        }
        witness.settles(settlement.owner);
        if !matches!(
            settlement.settling,
            Settling::Release | Settling::Renew { .. }
        ) {
            witness.records(&self.process, key_of(&settlement.id), settlement.owner);
        }
    }

    /// The answer to a claim, as a consumer with a missing guard would treat it.
    fn claimed(
        &self,
        claim: &Claim,
        answer: Result<Claimed, StoreError>,
    ) -> Result<Claimed, StoreError> {
        match (self.world.mutant(), answer) {
            (Some(Mutant::BusyIsDone), Ok(Claimed::Refused(mut item))) => {
                if item.owner != Some(claim.owner) && !claim.finds_free(&item) {
                    item.status = Status::Completed;
                }
                Ok(Claimed::Refused(item))
            }
            (Some(Mutant::SchemeIgnored), Ok(Claimed::Refused(mut item))) => {
                item.fingerprint = item.fingerprint.map(|one| of_scheme(&one, claim));
                Ok(Claimed::Refused(item))
            }
            (Some(Mutant::NoSelfRecognition), Ok(Claimed::Refused(mut item))) => {
                item.owner = None;
                Ok(Claimed::Refused(item))
            }
            (Some(Mutant::UnknownIsMine), Err(_)) => Ok(Claimed::Written {
                fence: Fence::first(claim.now),
            }),
            (_, answer) => answer,
        }
    }

    /// The answer to a settlement, as a consumer with a missing guard would treat it.
    fn settled(&self, answer: Result<Settled, StoreError>) -> Result<Settled, StoreError> {
        match (self.world.mutant(), answer) {
            (Some(Mutant::UnknownIsDone), Err(_))
            | (Some(Mutant::LostIsDone), Ok(Settled::Refused(_))) => Ok(Settled::Written),
            (_, answer) => answer,
        }
    }
}

impl Store for Watched {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            if self.world.mutant() == Some(Mutant::OtherIdReadFirst) {
                self.read_first(claims).await;
            }
            let takes_over = |claim: &Claim| claim.lease_until == Timestamp::default();
            if self.world.mutant() == Some(Mutant::OtherIdLeft) && claims.iter().all(takes_over) {
                let fence = Fence::default();
                return vec![Ok(Claimed::Written { fence }); claims.len()];
            }
            let takeovers = claims.iter().filter(|claim| takes_over(claim));
            let keys: Vec<_> = takeovers.map(|claim| key_of(&claim.id)).collect();
            self.decide(&keys, false);
            let answers = self.store.claim(claims).await;
            self.decide(&keys, answers.iter().all(Result::is_ok));
            let heard = claims.iter().zip(answers).map(|(claim, answer)| {
                self.heard(claim, &answer);
                self.claimed(claim, answer)
            });
            heard.collect()
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            settlements.iter().for_each(|one| self.sends(one));
            let renewals = settlements.iter().filter(|one| renews(one));
            let keys: Vec<_> = renewals.map(|one| key_of(&one.id)).collect();
            self.decide(&keys, false);
            let answers = self.store.settle(settlements).await;
            let is_written = |answer: &_| matches!(answer, Ok(Settled::Written));
            self.decide(&keys, answers.iter().all(is_written));
            let settled = settlements.iter().zip(answers).map(|(one, answer)| {
                if let Ok(settled) = &answer {
                    let is_refused = matches!(settled, Settled::Refused(_));
                    match is_refused {
                        true => self.world.count(Count::RefusedSettlements),
                        false if prolongs(one) => {}
                        false => self.world.witness().recorded(one.owner),
                    }
                    if prolongs(one) {
                        self.process.watchdog().renewed(one, is_refused);
                    }
                }
                self.settled(answer)
            });
            settled.collect()
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move {
            let mut answers = self.store.read(ids).await;
            for (answer, id) in answers.iter_mut().zip(ids) {
                if answer.is_err() || Ids::of(id) == self.process.ids() {
                    continue;
                }
                let key = key_of(id);
                self.world.witness().decides(&self.process, key, true);
                if let (Some(Mutant::OtherFenceIgnored), Ok(Some(item))) =
                    (self.world.mutant(), &mut *answer)
                {
                    // The fence that follows is the claim's own.
                    let own = self.world.witness().last_told(&self.process, key);
                    item.fence = own.map(|own| Fence::from_stored(own.get() - 1));
                }
                if self.world.mutant() == Some(Mutant::OtherIdReadFirst) {
                    *answer = Ok(self.read_first.lock().get(id).cloned().flatten());
                }
            }
            let read = answers.into_iter().map(|answer| match answer {
                Ok(Some(_)) if self.world.mutant() == Some(Mutant::LookupIgnored) => Ok(None),
                Ok(Some(item)) if item.status == Status::Completed => {
                    self.world.count(Count::Recognised);
                    Ok(Some(item))
                }
                answer => answer,
            });
            read.collect()
        })
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        self.store
            .atomic_writes()
            .map(|_| self as &dyn AtomicWrites)
    }

    fn transactions(&self) -> Option<&dyn Transactions> {
        self.store.transactions()
    }
}

impl AtomicWrites for Watched {
    fn commit<'a>(
        &'a self,
        settlement: &'a Settlement,
        writes: &'a Writes,
    ) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(async move {
            self.sends(settlement);
            let Some(atomic) = self.store.atomic_writes() else {
                return Err(StoreError::new(StoreErrorKind::Other, "it commits nothing"));
            };
            let committed = atomic.commit(settlement, writes).await;
            match (self.world.mutant(), committed) {
                (Some(Mutant::UnknownIsDone), Err(_)) => Ok(Committed::Written),
                (_, committed) => committed,
            }
        })
    }

    fn commit_all<'a>(
        &'a self,
        commits: &'a [(&'a Settlement, &'a Writes)],
    ) -> StoreFuture<'a, Committed> {
        Box::pin(async move {
            match (self.store.atomic_writes(), commits) {
                (Some(atomic), [_, _, ..]) => {
                    commits.iter().for_each(|(one, _)| self.sends(one));
                    atomic.commit_all(commits).await
                }
                _ => join_all(commits.iter().map(|(one, writes)| self.commit(one, writes))).await,
            }
        })
    }
}
