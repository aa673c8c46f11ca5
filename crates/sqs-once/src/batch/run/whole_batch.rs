//! The call of a batch handler. It receives all claimed records at once, when every record is claimed or has ended.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use tokio::time::Instant;
use tracing::{Instrument, error_span};

use crate::breaker::Pass;
use crate::handler::{BatchCall, BatchParts, Work};
use crate::idempotency::PendingSettlement;
use crate::key::Payloads;
use crate::report::{Outcome, Report};

use super::super::handling::{Failure, Handling};
use super::ending::AFTER_FAILED;
use super::{Finished, Run, Startable, timed};

/// The place of a batch handler's route. It is the only one, because a router has no batch handlers.
const ONLY: usize = 0;
pub(in crate::batch) const TOO_LATE: &str =
    "its key could not be claimed in half of the batch's time";
pub(in crate::batch) const BEGUN: &str = "its batch had begun before its key could be claimed";
pub(in crate::batch) const AFTER_UNDECIDED: &str =
    "an earlier record of its message group was not decided in half of the batch's time";
pub(in crate::batch) const AFTER_COPY: &str =
    "an earlier record of its message group has the key of another record, which was not done yet";
pub(in crate::batch) const OUT_OF_ORDER: &str =
    "it succeeded after an earlier record of its message group failed";

pub(super) struct Together<'a> {
    /// `None` after the call.
    call: Option<BatchCall<'a, ()>>,
    pub(super) claims_until: Instant,
    /// Whether the time for claims is over, so that the call does not wait for undecided claims.
    pub(super) claims_over: bool,
    /// Whether the one transaction of all records was asked for.
    has_asked: bool,
    /// The settlements that wait for the end of the call, or in a FIFO queue for the commit of an earlier record of their
    /// group.
    completions: Vec<(usize, PendingSettlement)>,
    /// The records of a FIFO queue whose writes are being committed.
    committing: HashSet<usize>,
}

impl<'a> Together<'a> {
    /// Gives the claims half of the remaining time, and the handler the other half.
    pub(super) fn new(call: BatchCall<'a, ()>, cancel_at: Instant) -> Self {
        let now = Instant::now();
        Self {
            call: Some(call),
            claims_until: now + cancel_at.saturating_duration_since(now) / 2,
            claims_over: false,
            has_asked: false,
            completions: Vec::new(),
            committing: HashSet::new(),
        }
    }

    /// Returns whether the call is made, so that no further record can join it.
    pub(super) fn has_begun(&self) -> bool {
        self.call.is_none()
    }

    /// Returns when the time for claims ends, or `None` once it is over.
    pub(super) fn claims_until(&self) -> Option<Instant> {
        (!self.claims_over).then_some(self.claims_until)
    }
}

impl Run<'_> {
    /// Returns the unclaimed records to the queue when the time for claims is over.
    pub(super) fn return_unclaimed(&mut self) {
        let Some(together) = &mut self.together else {
            return;
        };
        if !together.claims_over && Instant::now() >= together.claims_until {
            together.claims_over = true;
            for record in self.lanes.drain() {
                self.end(record, Report::untried(TOO_LATE));
            }
        }
    }

    /// Prepares all records, and then claims their keys in one transaction. When the time for claims is over, leaves out the
    /// records that are not prepared.
    pub(super) fn claim_at_once(&mut self, in_time: impl Fn() -> bool) {
        while self.returning.is_none() && self.preparing.has_room() && in_time() {
            let Some((record, route)) = self.next_record(&[]) else {
                break;
            };
            if let Some(candidate) = self.take_up(record, route) {
                self.preparing.keep(candidate);
            }
        }
        let held = self.held.iter().all(VecDeque::is_empty);
        let is_prepared = self.lanes.is_empty() && held && self.preparing.is_over();
        let Some(together) = &mut self.together else {
            return;
        };
        let too_late = match (together.has_asked, together.claims_over) {
            (true, true) => Some(TOO_LATE),
            (true, false) => Some(BEGUN),
            (false, _) => None,
        };
        if let Some(reason) = self.returning.or(too_late) {
            for candidate in self.preparing.take_ready() {
                self.end(candidate.record, Report::untried(reason));
            }
        } else if is_prepared || together.claims_over {
            together.has_asked = true;
            let candidates = self.preparing.take_ready();
            if !candidates.is_empty() {
                self.claimer.ask(candidates);
            }
        }
    }

    /// Makes the call when every claim is decided or the time for claims is over. An idle claimer has decided all claims.
    pub(super) fn start_together(&mut self) {
        // An open record that is neither claimed nor a follower may still stop its group.
        let followers = || {
            self.records
                .iter()
                .map(|taken| taken.followers.len())
                .sum::<usize>()
        };
        let is_order_decided =
            || !self.ledger.is_fifo || self.ledger.open() == self.startable.len() + followers();
        let is_decided = self.claimer.is_idle() && self.preparing.is_idle() && is_order_decided();
        let claims_over = self.together.as_ref().is_some_and(|call| call.claims_over);
        if !is_decided && !claims_over {
            return;
        }
        if self.startable.is_empty() {
            return;
        }
        if self.together.as_ref().is_none_or(Together::has_begun) {
            let late = std::mem::take(&mut self.startable);
            return self.return_claimed(late, BEGUN);
        }
        let permit = match self.gate.begin(ONLY) {
            Ok(permit) => permit,
            Err(Pass::Shut) => {
                for startable in std::mem::take(&mut self.startable) {
                    let claim = startable.owned.as_ref().map(|owned| &owned.claim);
                    self.release(startable.record, claim);
                    self.end_shut(startable.record);
                }
                return;
            }
            Err(_) => return,
        };
        let mut owned = self.startable.iter_mut().map(|one| one.owned.as_mut());
        let transaction = owned.find_map(|owned| owned?.transaction.take());
        let startables = self.take_startables();
        if startables.is_empty() {
            return;
        }
        let together = self.together.as_mut();
        let Some(batch_call) = together.and_then(|together| together.call.take()) else {
            return;
        };
        let mut claims = Vec::with_capacity(startables.len());
        let mut records = Vec::with_capacity(startables.len());
        for mut startable in startables {
            if let Some(Work::Join(payload)) = startable.work.take() {
                let record = startable.record;
                let (owned, parts) = self.hand_over(startable);
                claims.push((record, owned));
                records.push((payload, parts));
            }
        }
        let span = error_span!("batch", records = records.len());
        let handle = transaction.as_ref().map(|transaction| transaction.handle());
        if let Some((_, Some(first))) = claims.first_mut() {
            first.transaction = transaction;
        }
        let parts = |cancel_at| BatchParts {
            cancel_at,
            transaction: handle,
            state: (),
        };
        let call = move |cancel_at| batch_call(records, parts(cancel_at));
        let route = &self.engine.routes[ONLY];
        let running = self.running.part();
        let (cancel_at, dependencies) = (self.deadline.cancel_at, &route.dependencies[..]);
        let limit = route.record_timeout;
        let handling = Handling::new(call, running.clone(), cancel_at, limit, dependencies);
        let ledger = self.ledger;
        let finished = async move {
            let finished = |((record, owned), result)| Finished {
                record,
                route: ONLY,
                owned,
                result,
            };
            let results = timed(ledger, ONLY, running.clone().scope(handling)).await;
            drop(permit);
            if let Some((_, first)) = claims.first_mut() {
                *first = first.take().map(|owned| owned.held_while(running));
            }
            match results {
                Ok(results) => {
                    let results = results
                        .into_iter()
                        .map(|it| it.map_err(|error| Failure::of_record(error, dependencies)));
                    claims.into_iter().zip(results).map(finished).collect()
                }
                Err(failure) => {
                    let failures = std::iter::repeat_with(|| Err(failure.clone()));
                    claims.into_iter().zip(failures).map(finished).collect()
                }
            }
        };
        self.calls.push(Box::pin(finished.instrument(span)));
    }

    /// Returns the first record with the same key, which may be this one.
    fn leader_of(&self, record: usize) -> usize {
        let item = self.records[record].item.as_ref();
        let leader = item.and_then(|item| self.leaders.get(item));
        leader.copied().unwrap_or(record)
    }

    /// Returns whether a record and the one that has claimed its key ask for the same effect in one message group.
    fn is_copy(&self, record: usize, leader: usize) -> bool {
        let group = |record: usize| self.ledger.messages[record].group_id();
        group(record) == group(leader) && self.payloads(record, leader) == Payloads::Same
    }

    /// Returns the place of a claimed record in the batch's order: its own, or that of an earlier copy whose payload came
    /// later.
    fn place_in_order(&self, leader: usize) -> usize {
        let copies = self.records[leader].followers.iter().copied();
        let earlier = copies.filter(|&copy| self.is_copy(copy, leader)).min();
        earlier.map_or(leader, |copy| copy.min(leader))
    }

    /// Takes the claimed records, in the batch's order. Leaves out records after a record that stops, or may stop,
    /// their FIFO message group.
    fn take_startables(&mut self) -> Vec<Startable> {
        let claimed = std::mem::take(&mut self.startable).into_iter();
        let claimed = claimed.map(|one| (self.place_in_order(one.record), one));
        let mut claimed: BTreeMap<_, _> = claimed.collect();
        if !self.ledger.is_fifo {
            return claimed.into_values().collect();
        }
        let ledger = self.ledger;
        // Ends the rest of each stopped group.
        let mut stopped = HashMap::new();
        for (record, message) in ledger.messages.iter().enumerate() {
            let group = message.group_id();
            if let Some(report) = ledger.report(record) {
                if !self.group_goes_on(record, &report) {
                    let behind = Report::untried(AFTER_FAILED).wait(report.wait);
                    stopped.entry(group).or_insert(behind);
                }
            } else if let Some(report) = stopped.get(&group) {
                if let Some(behind) = claimed.remove(&record) {
                    let claim = behind.owned.as_ref().map(|owned| &owned.claim);
                    self.release(behind.record, claim);
                    self.end(behind.record, report.clone());
                }
            } else {
                let leader = self.leader_of(record);
                if !claimed.contains_key(&self.place_in_order(leader)) {
                    stopped.insert(group, Report::untried(AFTER_UNDECIDED));
                } else if leader != record && !self.is_copy(record, leader) {
                    // It may fail although its leader succeeds, and the handler sees no record of this group that fails.
                    stopped.insert(group, Report::untried(AFTER_COPY));
                }
            }
        }
        // One of them may have stopped the batch.
        if let Some(reason) = self.returning {
            let rest = std::mem::take(&mut claimed).into_values();
            self.return_claimed(rest, reason);
        }
        claimed.into_values().collect()
    }

    /// Returns whether effects commit in the order of their FIFO message group.
    fn commits_in_order(&self) -> bool {
        self.ledger.is_fifo && self.engine.routes[ONLY].idempotency.effect.writes
    }

    /// Returns the list of the settlements that wait, if those of a batch handler do.
    pub(super) fn completions(&mut self) -> Option<&mut Vec<(usize, PendingSettlement)>> {
        let waits = self.engine.traits.begins_once || self.commits_in_order();
        let together = self.together.as_mut().filter(|_| waits);
        together.map(|together| &mut together.completions)
    }

    /// Commits the writes of the first waiting record of each FIFO message group that commits none.
    fn commit_first_of_groups(&mut self) {
        let Some(together) = &mut self.together else {
            return;
        };
        let group = |record: usize| self.ledger.messages[record].group_id();
        let mut busy: HashSet<_> = together.committing.iter().map(|&at| group(at)).collect();
        for (record, completion) in std::mem::take(&mut together.completions) {
            if busy.insert(group(record)) {
                together.committing.insert(record);
                self.settler.push(Some(record), completion);
            } else {
                together.completions.push((record, completion));
            }
        }
    }

    /// Continues with the next record of the FIFO message group of a record whose writes were decided, or returns the rest of
    /// the group. `is_done` tells whether its effect has happened.
    pub(super) fn committed(&mut self, record: usize, is_done: bool) {
        let together = self.together.as_mut();
        if !together.is_some_and(|together| together.committing.remove(&record)) {
            return;
        }
        let goes_on = match self.ledger.report(record) {
            Some(report) => self.group_goes_on(record, &report),
            // Its hook runs, or it moves to the dead-letter queue.
            None => is_done,
        };
        if let (false, Some(together)) = (goes_on, &mut self.together) {
            let group = |record: usize| self.ledger.messages[record].group_id();
            let of_group = |one: &mut (usize, _)| group(one.0) == group(record);
            let rest: Vec<_> = together.completions.extract_if(.., of_group).collect();
            for (behind, completion) in rest {
                if let Some(release) = completion.release() {
                    self.settler.push(None, release);
                }
                self.end(behind, Report::new(Outcome::Failed).because(AFTER_FAILED));
            }
        }
        self.commit_first_of_groups();
    }

    pub(super) fn finished_together(&mut self, mut finished: Vec<Finished>) {
        let mut transaction = None;
        if self.engine.traits.begins_once {
            let mut owned = finished.iter_mut().map(|one| one.owned.as_mut());
            transaction = owned.find_map(|owned| owned?.transaction.take());
        }
        let messages = &self.ledger.messages;
        let mut failed = HashSet::new();
        for one in finished {
            let group = messages[one.record].group_id();
            if one.result.is_err() {
                failed.insert(group);
            } else if self.ledger.is_fifo && failed.contains(&group) {
                // Its writes would commit out of order.
                if self.commits_in_order() {
                    self.release(one.record, one.owned.as_ref().map(|owned| &owned.claim));
                    self.end(
                        one.record,
                        Report::new(Outcome::Failed).because(AFTER_FAILED),
                    );
                    continue;
                }
                let warnings = &mut self.records[one.record].warnings;
                warnings.push(OUT_OF_ORDER.to_owned());
            }
            self.finished(one);
        }
        let completions = self.completions().map(std::mem::take).unwrap_or_default();
        match transaction {
            Some(transaction) => self.settler.commit_batch(transaction, completions),
            None if self.commits_in_order() => {
                if let Some(together) = &mut self.together {
                    together.completions = completions;
                }
                self.commit_first_of_groups();
            }
            None => {
                for (record, completion) in completions {
                    self.settler.push(Some(record), completion);
                }
            }
        }
    }
}
