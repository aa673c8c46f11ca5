//! The call of a batch handler. Each record goes its own way up to its claim, joins the call, and goes on with its result.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, error_span};

use crate::handler::{self, BatchCall, BatchParts, Done, Payload, RecordParts};
use crate::idempotency::Deadline;
use crate::key::{Fingerprint, ItemId, Payloads};
use crate::report::{Report, Untried};
use crate::store::OpenTransaction;

use super::ending::Returns;
use super::engine::Engine;
use super::handling::{Failure, Handling};
use super::ledger::Ledger;
use super::line::Line;
use super::run::Batch;

/// The place of a batch handler's route. It is the only one, because a router has no batch handlers.
const ONLY: usize = 0;
pub(super) const OUT_OF_ORDER: &str = "it succeeded after an earlier message of its group failed";

/// What the records of a batch handler's batch wait for.
pub(super) struct Together {
    /// The code of the call, which may go on after it.
    pub(super) code: handler::Running,
    /// When the time for claims ends.
    pub(super) claims_until: Instant,
    /// Whether one transaction contains all claims.
    pub(super) begins_once: bool,
    /// Whether effects commit in the order of their FIFO message group.
    commits_in_order: bool,
    state: Mutex<State>,
    /// The call waits here.
    line: Line,
    /// Records wait here for the keys of earlier ones.
    keys: Line,
}

struct State {
    /// The records that may still join the call, or stop the others of their group.
    undecided: HashSet<usize>,
    /// Those of a FIFO queue whose key may still become known.
    unkeyed: HashSet<usize>,
    /// Those that have asked for their claim.
    claiming: HashSet<usize>,
    joined: Vec<Joined>,
    /// The records that wait for another one with their key.
    copies: HashMap<usize, Copy>,
    /// The records that stop their message group.
    stopped: HashMap<usize, Returns>,
    /// Whether the call is made, so that no further record can join it.
    has_begun: bool,
    /// Whether the one transaction of all records was asked for, and whether it is open.
    has_asked: bool,
    has_transaction: bool,
    /// The successes whose settlement was not asked for yet.
    unsettled: usize,
}

/// A claimed record that waits for the call.
pub(super) struct Joined {
    pub(super) at: usize,
    pub(super) payload: Payload,
    pub(super) parts: RecordParts<()>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) transaction: Option<Box<dyn OpenTransaction>>,
    pub(super) called: oneshot::Sender<Called>,
}

/// A record of the call that has failed.
struct FailedOne {
    at: usize,
    /// The dependency that it lacked.
    lacks: Option<Arc<str>>,
}

struct Copy {
    leader: usize,
    fingerprint: Option<Fingerprint>,
}

/// What the call means for a record.
pub(super) enum Called {
    Ended {
        result: Result<Done, Failure>,
        /// The transaction of all records, for the first that has succeeded.
        transaction: Option<Box<dyn OpenTransaction>>,
        /// Whether it succeeded after an earlier message of its group failed.
        /// Earlier records of its message group that have failed.
        behind: Vec<usize>,
    },
    /// The record is not part of the call, or its writes would commit out of order.
    Left(Returns),
}

impl Together {
    /// Gives the claims half of the remaining time, and the handler the other half.
    pub(super) fn of(
        engine: &Engine,
        ledger: &Ledger,
        deadline: Deadline,
        code: handler::Running,
    ) -> Self {
        let (records, is_fifo) = (ledger.messages.len(), ledger.is_fifo);
        let now = Instant::now();
        let left = deadline.cancel_at.saturating_duration_since(now);
        let idempotency = &engine.routes[ONLY].idempotency;
        Self {
            code,
            claims_until: now + left / 2,
            begins_once: idempotency.opens_transactions(),
            commits_in_order: is_fifo && idempotency.mode.is_of_writes(),
            state: Mutex::new(State {
                undecided: (0..records).collect(),
                unkeyed: (0..records).filter(|_| is_fifo).collect(),
                claiming: HashSet::new(),
                joined: Vec::new(),
                copies: HashMap::new(),
                stopped: HashMap::new(),
                has_begun: false,
                has_asked: false,
                has_transaction: false,
                unsettled: 0,
            }),
            line: Line::new(1),
            keys: Line::new(1),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of records that may still join the call.
    pub(super) fn undecided(&self) -> usize {
        self.state().undecided.len()
    }

    /// Notes that a record's key is known, or that it has ended.
    fn keyed(&self, record: usize) {
        if self.state().unkeyed.remove(&record) {
            self.keys.wake_all();
        }
    }

    /// Lets the call no longer wait for a record.
    pub(super) fn decided(&self, record: usize) {
        self.state().undecided.remove(&record);
        self.line.wake_first();
    }

    /// Notes that a record has stopped its message group.
    pub(super) fn stops(&self, record: usize, stopped: Returns) {
        self.state().stopped.insert(record, stopped);
    }

    /// Notes that a record asks for its claim.
    pub(super) fn claims(&self, record: usize) {
        self.state().claiming.insert(record);
    }

    /// Lets the call no longer wait for records that have not asked for their claim.
    fn claims_over(&self) {
        let mut state = self.state();
        let State {
            undecided,
            claiming,
            ..
        } = &mut *state;
        undecided.retain(|record| claiming.contains(record));
    }

    /// Lets the call no longer wait for a record that has ended. Records with its key may have to claim it.
    pub(super) fn ended(&self, record: usize) {
        let mut state = self.state();
        let State {
            undecided, copies, ..
        } = &mut *state;
        undecided.extend(
            copies
                .extract_if(|_, copy| copy.leader == record)
                .map(|(at, _)| at),
        );
        drop(state);
        self.decided(record);
        self.keyed(record);
    }

    /// Marks the one transaction as asked for.
    pub(super) fn asks(&self) {
        self.state().has_asked = true;
    }

    pub(super) fn has_asked(&self) -> bool {
        self.state().has_asked
    }

    pub(super) fn opened(&self) {
        self.state().has_transaction = true;
    }

    pub(super) fn has_transaction(&self) -> bool {
        self.state().has_transaction
    }

    pub(super) fn is_settling(&self) -> bool {
        self.state().unsettled > 0
    }

    /// Marks a success as one whose settlement was asked for.
    pub(super) fn settles(&self) {
        let mut state = self.state();
        state.unsettled = state.unsettled.saturating_sub(1);
    }

    /// Notes that a record waits for another one with its key.
    pub(super) fn follows(&self, record: usize, leader: usize, fingerprint: Option<Fingerprint>) {
        let copy = Copy {
            leader,
            fingerprint,
        };
        self.state().copies.insert(record, copy);
        self.decided(record);
    }

    /// Notes that a record claims its key itself after all. Returns `false` if the call is made.
    pub(super) fn leads_again(&self, record: usize) -> bool {
        let mut state = self.state();
        state.copies.remove(&record);
        state.undecided.insert(record);
        !state.has_begun
    }

    /// Lets a record join the call. Returns `false` if the call is made.
    pub(super) fn join(&self, joined: Joined) -> bool {
        let record = joined.at;
        let mut state = self.state();
        if state.has_begun {
            return false;
        }
        state.joined.push(joined);
        drop(state);
        self.decided(record);
        true
    }
}

impl<'a> Batch<'a> {
    /// Waits until the keys of the earlier records of a FIFO message group are known. So the first of its records with a key
    /// leads, and not the one whose payload comes first.
    pub(super) async fn keyed_in_order(&self, together: &Together, record: usize) {
        if !self.ledger.is_fifo {
            return;
        }
        let group = |at: usize| self.ledger.messages[at].group_id();
        let is_earlier = |&other: &usize| other < record && group(other) == group(record);
        let is_next = || !together.state().unkeyed.iter().any(is_earlier);
        let may_go = || is_next() || self.stop.claims_over().is_some();
        together.keys.wait(0, |_| may_go().then_some(())).await;
        together.keyed(record);
    }

    /// Makes the call when every record has joined it or ended, or when the time for claims is over.
    pub(super) async fn call_together(&self, together: &Together, call: &BatchCall) {
        let is_over = || together.undecided() == 0 || self.stop.reason().is_some();
        let decided = || together.line.wait(0, |_| is_over().then_some(()));
        if timeout_at(together.claims_until, decided()).await.is_err() {
            self.stop.end_claims(Untried::ClaimedTooLate);
            together.claims_over();
            // The transaction was begun in time, and the call needs all its claims.
            if together.begins_once {
                decided().await;
            }
        }
        let has_joined = !together.state().joined.is_empty();
        let handler = match has_joined {
            true => self.start_handler(ONLY).await,
            false => Err(Untried::ClaimedTooLate),
        };
        let (joined, transaction) = self.take_joined(together);
        let handler = match handler {
            Ok(handler) => handler,
            Err(why) => {
                for one in joined {
                    let returns = self.untried(Some(ONLY), why);
                    let _ = one.called.send(Called::Left(returns));
                }
                return;
            }
        };
        if joined.is_empty() {
            return;
        }
        let span = error_span!("batch", records = joined.len());
        let called = self.make_call(together, joined, transaction, call);
        let called = called.instrument(span);
        let (ended, transaction, code) = called.await;
        let transaction = handler.end(code, transaction);
        self.hand_over(together, ended, transaction).await;
    }

    /// Calls the handler. Also returns what counts its blocking code, which may go on after a cancelled call.
    async fn make_call(
        &self,
        together: &Together,
        joined: Vec<Joined>,
        transaction: Option<Box<dyn OpenTransaction>>,
        call: &BatchCall,
    ) -> (
        Vec<Handled>,
        Option<Box<dyn OpenTransaction>>,
        handler::Running,
    ) {
        let (mut waiting, mut records) = (Vec::new(), Vec::new());
        for one in joined {
            waiting.push((one.at, one.parts.item.clone(), one.called));
            records.push((one.payload, one.parts));
        }
        let handle = transaction.as_ref().map(|transaction| transaction.handle());
        let invocation = Arc::clone(&self.ledger.invocation);
        let parts = |cancel_at| BatchParts {
            invocation,
            cancel_at,
            transaction: handle,
            state: (),
        };
        let call = move |cancel_at| call(records, parts(cancel_at));
        let route = &self.engine.routes[ONLY];
        let running = together.code.clone();
        let until = self.until(self.deadline.cancel_at);
        let (limit, errors) = (route.attempt_timeout, &route.errors);
        let handling = Handling::new(call, running.clone(), until, limit, errors);
        let began = Instant::now();
        let results = running.clone().scope(handling).await;
        let duration = began.elapsed();
        self.ledger
            .count(ONLY, |tally| tally.handler_durations.push(duration));
        let results: Vec<_> = match results {
            Ok(results) => {
                let results = results.into_iter();
                let of_record = |error| errors.failure_of_record(error);
                let results: Vec<_> = results.map(|it| it.map_err(of_record)).collect();
                results.iter().for_each(|it| self.gate.ended(ONLY, it));
                results
            }
            // It failed once, whatever the number of its records.
            Err(failure) => {
                self.gate.ended(ONLY, &Err::<(), _>(failure.clone()));
                waiting.iter().map(|_| Err(failure.clone())).collect()
            }
        };
        let handled = waiting.into_iter().zip(results);
        let handled = handled.map(|((at, item, called), result)| Handled {
            at,
            item,
            called,
            result,
        });
        (handled.collect(), transaction, running)
    }

    /// Gives each record its result.
    async fn hand_over(
        &self,
        together: &Together,
        handled: Vec<Handled>,
        mut transaction: Option<Box<dyn OpenTransaction>>,
    ) {
        let group = |at: usize| self.ledger.messages[at].group_id();
        let mut failed: HashMap<_, Vec<FailedOne>> = HashMap::new();
        let mut lanes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for one in handled {
            let behind = failed.get(&group(one.at)).map_or(&[][..], Vec::as_slice);
            let called = match (one.result, behind) {
                // Nothing has to commit before it ends.
                (Ok(_), [FailedOne { lacks, .. }, ..]) if together.commits_in_order => {
                    let left = Called::Left(behind_failed(lacks.clone()));
                    let _ = one.called.send(left);
                    continue;
                }
                (Err(failure), _) => {
                    let lacks = match &failure {
                        Failure::Unavailable { dependency, .. } => Some(Arc::clone(dependency)),
                        _ => None,
                    };
                    // After a last delivery there is no later one that its group could wait for. Only what commits in order
                    // asks before it goes on: SQS may be silent, and the effects of the others have happened.
                    if self.ledger.is_fifo
                        && (lacks.is_some()
                            || !together.commits_in_order
                            || !self.is_last_delivery(one.at).await)
                    {
                        let of_group = failed.entry(group(one.at)).or_default();
                        of_group.push(FailedOne { at: one.at, lacks });
                    }
                    let _ = one.called.send(Called::Ended {
                        result: Err(failure),
                        transaction: None,
                        behind: Vec::new(),
                    });
                    continue;
                }
                (Ok(done), behind) => Called::Ended {
                    result: Ok(done),
                    transaction: transaction.take(),
                    behind: behind.iter().map(|failed| failed.at).collect(),
                },
            };
            let lane = lanes.entry(together.commits_in_order.then(|| group(one.at)));
            lane.or_default().push((one.item, one.called, called));
        }
        // Without a success, this rolls the transaction back.
        drop(transaction);
        let lanes = lanes.into_values();
        join_all(lanes.map(|lane| self.hand_over_lane(together, lane))).await;
    }

    /// Gives each record of a message group its result once the record before it has committed.
    async fn hand_over_lane(
        &self,
        together: &Together,
        lane: Vec<(ItemId, oneshot::Sender<Called>, Called)>,
    ) {
        let mut goes_on = true;
        for (item, record, called) in lane {
            let called = match goes_on {
                true => called,
                false => Called::Left(behind_failed(None)),
            };
            if goes_on {
                together.state().unsettled += 1;
            }
            // The record of a batch that is being dropped is gone.
            let _ = record.send(called);
            if together.commits_in_order
                && goes_on
                && let Some(record) = self.leaders.get(&item)
            {
                goes_on = record.ended().await.goes_on;
            }
        }
    }

    /// Takes the records that have joined the call, in the batch's order. Leaves out records after a record that stops, or
    /// may stop, their FIFO message group. The transaction is that of all records.
    fn take_joined(&self, together: &Together) -> (Vec<Joined>, Option<Box<dyn OpenTransaction>>) {
        let mut state = together.state();
        state.has_begun = true;
        let mut joined = std::mem::take(&mut state.joined);
        let transaction = joined.iter_mut().find_map(|one| one.transaction.take());
        let copies = std::mem::take(&mut state.copies);
        let stops = std::mem::take(&mut state.stopped);
        drop(state);
        let mut joined: BTreeMap<_, _> = joined.into_iter().map(|one| (one.at, one)).collect();
        if self.ledger.is_fifo {
            self.leave_out(&mut joined, &copies, stops);
        }
        (joined.into_values().collect(), transaction)
    }

    /// Leaves out the rest of each FIFO message group that a record stops, or may stop.
    fn leave_out(
        &self,
        joined: &mut BTreeMap<usize, Joined>,
        copies: &HashMap<usize, Copy>,
        mut stops: HashMap<usize, Returns>,
    ) {
        let mut stopped = HashMap::new();
        for at in 0..self.ledger.messages.len() {
            let group = self.ledger.messages[at].group_id();
            if self.ledger.report(at).is_some() {
                if let Some(returns) = stops.remove(&at) {
                    stopped.entry(group).or_insert(returns);
                }
            } else if let Some(returns) = stopped.get(&group) {
                if let Some(behind) = joined.remove(&at) {
                    let _ = behind.called.send(Called::Left(returns.clone()));
                }
            } else {
                let copy = copies.get(&at);
                let leader = copy.map_or(at, |copy| copy.leader);
                let may_stop = match (joined.get(&leader), copy) {
                    (None, _) => Untried::BehindUndecided,
                    // It may fail although its leader succeeds, and the handler sees no record of this group that fails.
                    (Some(leader), Some(copy)) if !self.is_copy(at, copy, leader) => {
                        Untried::BehindCopy
                    }
                    (Some(_), _) => continue,
                };
                stopped.insert(group, Returns::untried(may_stop));
            }
        }
    }

    /// Returns whether a record asks for the same effect as its leader, in one message group.
    fn is_copy(&self, at: usize, copy: &Copy, leader: &Joined) -> bool {
        let group = |at: usize| self.ledger.messages[at].group_id();
        let (own, other) = (copy.fingerprint.as_ref(), leader.fingerprint.as_ref());
        group(at) == group(leader.at) && Fingerprint::compare(own, other) == Payloads::Same
    }
}

/// A record cannot commit, because an earlier message of its group has failed, which lacked this dependency.
fn behind_failed(lacks: Option<Arc<str>>) -> Returns {
    let report = Report::failed(Untried::GroupStopped.reason());
    Returns { report, lacks }
}

/// A record whose call has ended.
struct Handled {
    at: usize,
    item: ItemId,
    called: oneshot::Sender<Called>,
    result: Result<Done, Failure>,
}
