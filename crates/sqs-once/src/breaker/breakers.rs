//! The breakers of a consumer: their states in this environment, and the requests that change the shared ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::idempotency::breaker::{self, Shared, item_id};
use crate::idempotency::{
    Admission, Driver, Retries, answers_until, first_of, on_claimed, on_refused,
};
use crate::key::ItemId;
use crate::record::Message;
use crate::store::{Claim, Claimed, Item, Owner, Seen, Settled, StoreError};
use crate::time::{Clock, Timestamp};

use super::circuit::{Circuit, Next, Pass, Tried};
use super::dependency::Dependency;
use super::{Hiding, LOG, QueueLimits, hidden_for};

/// All breakers of a consumer. Its batches share them.
pub(crate) struct Breakers {
    dependencies: Vec<Dependency>,
    /// The consumer's concurrency.
    most: usize,
    /// Whether a dependency limits how many handlers run.
    limits_handlers: bool,
    states: Mutex<States>,
    changed: watch::Sender<()>,
}

struct States {
    circuits: Vec<Circuit>,
    /// The number of running handlers that depend on each.
    in_flight: Vec<usize>,
    /// How many of them were cancelled, and only their blocking code goes on.
    overrunning: Vec<usize>,
    /// The owner of the probe with which this environment last closed each. The item may still show its claim.
    closed_by: Vec<Option<Owner>>,
    /// When the items of the breakers were read last, or the first batch began.
    read_at: Option<Timestamp>,
}

impl States {
    fn are_closed(&self) -> bool {
        let mut circuits = self.circuits.iter();
        circuits.all(|circuit| matches!(circuit, Circuit::Closed { .. }))
    }

    /// Returns those of the breakers whose time is over. They are asked about from now on.
    fn lapsed(&mut self, on: &[usize], now: Timestamp) -> Vec<usize> {
        let mut lapsed = Vec::new();
        for &at in on {
            if let Some(asking) = self.circuits[at].lapsed(now) {
                self.circuits[at] = asking;
                lapsed.push(at);
            }
        }
        lapsed
    }

    /// Decides whether a record that depends on these may start.
    fn pass(&self, dependencies: &[Dependency], on: &[usize], now: Timestamp) -> Pass {
        let passes = on.iter().map(|&at| {
            let circuit = self.circuits[at];
            // Blocking code of cancelled calls may go on for long. Only the dependency's own limit counts it.
            let (overrunning, most) = (self.overrunning[at], dependencies[at].max_in_flight);
            let is_overrun = most.is_some_and(|most| overrunning >= most);
            match circuit.pass(self.in_flight[at] - overrunning, now) {
                Pass::Shut => Pass::Shut,
                // No record could probe.
                _ if is_overrun && !circuit.starts_records() => Pass::Shut,
                _ if is_overrun => Pass::Overrun,
                pass => pass,
            }
        });
        passes.fold(Pass::Free, |worst, one| match (worst, one) {
            (Pass::Shut, _) | (_, Pass::Shut) => Pass::Shut,
            (Pass::Overrun, _) | (_, Pass::Overrun) => Pass::Overrun,
            (Pass::Wait, _) | (_, Pass::Wait) => Pass::Wait,
            (Pass::Limited(one), Pass::Limited(other)) => Pass::Limited(one.min(other)),
            (Pass::Free, other) | (other, Pass::Free) => other,
        })
    }
}

/// The part of the handlers in flight that one call is.
pub(crate) struct Permit {
    breakers: Arc<Breakers>,
    on: Arc<[usize]>,
    overruns: bool,
}

impl Permit {
    /// Notes that the call was cancelled, and that its blocking code goes on.
    pub(crate) fn overruns(&mut self) {
        self.overruns = true;
        let mut states = self.breakers.states();
        for &at in &*self.on {
            states.overrunning[at] += 1;
            states.circuits[at] = states.circuits[at].overrun();
        }
        drop(states);
        self.breakers.notify();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut states = self.breakers.states();
        for &at in &*self.on {
            states.in_flight[at] -= 1;
            states.overrunning[at] -= usize::from(self.overruns);
        }
        // Otherwise no record waits for a handler to end, and a notice would wake the batch for nothing.
        let is_awaited = self.breakers.limits_handlers || !states.are_closed();
        drop(states);
        if is_awaited {
            self.breakers.notify();
        }
    }
}

impl Breakers {
    /// Creates closed breakers. `most` is the consumer's concurrency.
    pub(crate) fn new(dependencies: &[Dependency], most: usize) -> Self {
        Self {
            dependencies: dependencies.to_vec(),
            most,
            limits_handlers: dependencies.iter().any(|one| one.max_in_flight.is_some()),
            states: Mutex::new(States {
                circuits: vec![Circuit::CLOSED; dependencies.len()],
                in_flight: vec![0; dependencies.len()],
                overrunning: vec![0; dependencies.len()],
                closed_by: vec![None; dependencies.len()],
                read_at: None,
            }),
            changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dependencies.is_empty()
    }

    /// Returns whether no breaker is open, is probed, or was until a moment ago.
    pub(crate) fn are_closed(&self) -> bool {
        self.states().are_closed()
    }

    pub(crate) fn ids(&self) -> Vec<ItemId> {
        self.dependencies
            .iter()
            .map(|one| item_id(one.name()))
            .collect()
    }

    /// Returns a receiver that sees every change.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns whether it is time to read the breakers that let records start here. An operator may have opened one.
    pub(crate) fn is_read_due(&self, now: Timestamp) -> bool {
        let Some(pause) = self.dependencies.iter().map(|one| one.probe_every).min() else {
            return false;
        };
        let mut states = self.states();
        let read_at = *states.read_at.get_or_insert(now);
        let mut circuits = states.circuits.iter();
        let starts_records = circuits.any(|circuit| circuit.starts_records());
        let is_due = starts_records && now.since(read_at) >= pause;
        if is_due {
            states.read_at = Some(now);
        }
        is_due
    }

    /// Reads the breakers, and enters which of them are open.
    pub(crate) async fn read(&self, driver: &Driver, by: Instant) {
        let ids = self.ids();
        let read = answers_until(by, ids.len(), driver.store.read(&ids)).await;
        let items = read.into_iter().zip(&self.dependencies).map(|(item, one)| {
            let failed = |error| log_warning(one.name(), UNREAD, Some(&error));
            item.map_err(failed).ok().flatten()
        });
        self.learn(&items.collect::<Vec<_>>(), driver.clock.now());
    }

    /// Enters what this environment has read.
    pub(crate) fn learn(&self, items: &[Option<Item>], now: Timestamp) {
        self.states().read_at = Some(now);
        for (at, item) in (0..self.dependencies.len()).zip(items) {
            self.learn_one(at, item.as_ref(), now);
        }
    }

    /// Opens a breaker in this environment if its item is open.
    fn learn_one(&self, at: usize, item: Option<&Item>, now: Timestamp) {
        let dependency = &self.dependencies[at];
        let mut states = self.states();
        let owner = item.and_then(|item| item.owner);
        // Otherwise this environment knows more than the item.
        if !states.circuits[at].starts_records() || owner.is_some() && owner == states.closed_by[at]
        {
            return;
        }
        // A half-open breaker is one whose time is over: the next record asks the store.
        let (since, until) = match Shared::of(item, now) {
            Shared::Closed => return,
            Shared::Open { since, until } => (since, dependency.asks_by(until, now)),
            Shared::HalfOpen { since, .. } => (since, Timestamp::default()),
        };
        log_info(dependency.name(), "the dependency is unavailable");
        states.circuits[at] = Circuit::Open { since, until };
    }

    /// Decides whether records that depend `on` these may start. Also returns the breakers of which the store must be
    /// asked: the caller calls [`ask`](Self::ask) for each.
    pub(crate) fn pass(&self, on: &[usize], clock: &dyn Clock) -> (Pass, Vec<usize>) {
        let mut states = self.states();
        // The usual case, for which the clock need not be asked.
        if states.are_closed() && states.overrunning.iter().all(|count| *count == 0) {
            return (Pass::Free, Vec::new());
        }
        let now = clock.now();
        let pass = states.pass(&self.dependencies, on, now);
        let lapsed = match pass {
            Pass::Wait => states.lapsed(on, now),
            _ => Vec::new(),
        };
        (pass, lapsed)
    }

    /// Counts a handler as in flight, if it may start. Otherwise decides as [`pass`](Self::pass).
    pub(crate) fn begin(
        self: &Arc<Self>,
        on: &Arc<[usize]>,
        now: Timestamp,
    ) -> Result<Permit, (Pass, Vec<usize>)> {
        let mut states = self.states();
        let is_full = |&at: &usize| {
            let most = self.dependencies[at].max_in_flight;
            most.is_some_and(|most| states.in_flight[at] >= most)
        };
        match states.pass(&self.dependencies, on, now) {
            Pass::Free | Pass::Limited(_) if !on.iter().any(is_full) => {
                for &at in &**on {
                    states.in_flight[at] += 1;
                }
                Ok(Permit {
                    breakers: Arc::clone(self),
                    on: Arc::clone(on),
                    overruns: false,
                })
            }
            pass @ (Pass::Shut | Pass::Overrun) => Err((pass, Vec::new())),
            _ => Err((Pass::Wait, states.lapsed(on, now))),
        }
    }

    /// Enters the end of a call that depends `on` these. Returns the requests to make.
    pub(crate) fn ended(&self, on: &[usize], tried: Tried<'_>) -> Vec<(usize, Next)> {
        // Which of several dependencies hung is not known.
        if tried == Tried::Cancelled && on.len() > 1 {
            return Vec::new();
        }
        let mut states = self.states();
        let (mut requests, mut is_changed) = (Vec::new(), false);
        for &at in on {
            let circuit = &mut states.circuits[at];
            let dependency = &self.dependencies[at];
            // The call may not have reached the other dependencies.
            if let Tried::Unavailable(name) | Tried::Answered(name) = tried
                && *name != **dependency.name()
            {
                continue;
            }
            let (after, next) = circuit.ended(tried, dependency.failures, self.most);
            is_changed |= *circuit != after;
            *circuit = after;
            if let Some(Next::Close(owner)) = next {
                states.closed_by[at] = Some(owner);
            }
            requests.extend(next.map(|next| (at, next)));
        }
        drop(states);
        if is_changed {
            self.notify();
        }
        requests
    }

    /// Returns the name of the first of the dependencies that is open.
    pub(crate) fn open(&self, on: &[usize]) -> Option<Arc<str>> {
        let states = self.states();
        let at = on
            .iter()
            .find(|&&at| !states.circuits[at].starts_records())?;
        Some(Arc::clone(self.dependencies[*at].name()))
    }

    /// Decides how long a message stays hidden while the dependency with this name is unavailable, from its queue's limits.
    pub(crate) fn plan_hiding(
        &self,
        name: &str,
        message: &Message,
        queue: Option<QueueLimits>,
        (now, bits): (Timestamp, u128),
    ) -> Hiding {
        let mut named = self.dependencies.iter().zip(self.states().circuits.clone());
        let named = named.find(|(one, _)| **one.name() == *name);
        let (Some((one, circuit)), Some(queue)) = (named, queue) else {
            return Hiding::AsUsual;
        };
        let left = queue.deliveries.left(message.receive_count().unwrap_or(1));
        let age = message.sent_at().map(|sent_at| now.since(sent_at));
        let keeps = queue.longest_hiding(age.unwrap_or_default());
        if left == 0 || keeps.is_some_and(|keeps| keeps < one.probe_every) {
            return Hiding::LastChance;
        }
        let Some(keeps) = keeps else {
            return Hiding::AsUsual;
        };
        let since = match circuit {
            Circuit::Open { since, .. }
            | Circuit::Asking { since }
            | Circuit::Probing { since, .. } => since,
            Circuit::Closed { .. } | Circuit::Opening | Circuit::Ramping { .. } => now,
        };
        let Dependency {
            outage,
            probe_every,
            ..
        } = one;
        let wait = hidden_for(left, now.since(since), *outage, *probe_every, bits);
        Hiding::For(wait.min(keeps))
    }

    /// Opens the breaker in the store. Returns whether this environment opened it, and not another one.
    pub(crate) async fn open_in_store(&self, at: usize, driver: &Driver, by: Instant) -> bool {
        let dependency = &self.dependencies[at];
        let now = driver.clock.now();
        let until = now + dependency.probe_every;
        // If the batch ends before the store answers, or the store does not know, only this environment waits.
        let mut outcome = Outcome::new(self, at, Circuit::Open { since: now, until });
        let (id, name) = (item_id(dependency.name()), &**dependency.name());
        let owner = Owner::from_bits(driver.random.bits());
        let mut claim = breaker::claim(&id, owner, now, (now, until), Seen::Nothing);
        let mut retries = Retries::new(by);
        let error = loop {
            let answer = match claimed(driver, &claim, by).await {
                Ok(answer) => answer,
                Err(error) => break Some(error),
            };
            let item = match (on_claimed(&claim, &answer), answer) {
                (Admission::Refused(_), Claimed::Refused(item)) => item,
                _ => {
                    log_warning(
                        name,
                        "the dependency is unavailable: its breaker opens",
                        None,
                    );
                    return true;
                }
            };
            let over = match (Shared::of(Some(&item), now), on_refused(&claim, &item)) {
                (Shared::Open { since, until }, _) => {
                    log_info(name, "the dependency is unavailable: its breaker is open");
                    let until = dependency.asks_by(until, now);
                    outcome.circuit = Circuit::Open { since, until };
                    return false;
                }
                (Shared::HalfOpen { since, seen }, _) => {
                    outcome.circuit = Circuit::Open { since, until };
                    Some(breaker::claim(&id, owner, now, (since, until), seen))
                }
                (Shared::Closed, over) => over,
            };
            match over {
                Some(over) if retries.at_once() => claim = over,
                _ => break None,
            }
        };
        log_warning(
            name,
            "the breaker opens in this environment only",
            error.as_ref(),
        );
        true
    }

    /// Asks the store about a breaker whose time is over, and takes part in the election of the probe.
    pub(crate) async fn ask(&self, at: usize, driver: &Driver, by: Instant) {
        let dependency = &self.dependencies[at];
        let now = driver.clock.now();
        let (id, name) = (item_id(dependency.name()), &**dependency.name());
        // Without an answer, a record is tried: that delivers rather than withholds.
        let mut outcome = Outcome::new(self, at, Circuit::ramping(1, self.most));
        let ids = [id.clone()];
        let item = match first_of(answers_until(by, 1, driver.store.read(&ids)).await) {
            Ok(item) => item,
            Err(error) => {
                log_warning(name, UNREAD, Some(&error));
                return;
            }
        };
        let (since, seen) = match Shared::of(item.as_ref(), now) {
            Shared::Closed => {
                log_info(name, "the dependency is available: its breaker is closed");
                return;
            }
            Shared::Open { since, until } => {
                let until = dependency.asks_by(until, now);
                outcome.circuit = Circuit::Open { since, until };
                return;
            }
            Shared::HalfOpen { since, seen } => (since, seen),
        };
        let until = now + dependency.probe_every;
        let owner = Owner::from_bits(driver.random.bits());
        let claim = breaker::claim(&id, owner, now, (since, until), seen);
        match claimed(driver, &claim, by).await {
            Ok(answer) => match (on_claimed(&claim, &answer), &answer) {
                (Admission::Run { .. }, _) => {
                    log_info(name, "one message is tried");
                    outcome.circuit = Circuit::Probing {
                        owner,
                        since,
                        until,
                    };
                }
                (_, Claimed::Refused(item)) => {
                    if let Shared::Open { since, until } = Shared::of(Some(item), now) {
                        let until = dependency.asks_by(until, now);
                        outcome.circuit = Circuit::Open { since, until };
                    }
                }
                (_, Claimed::Written { .. }) => {}
            },
            Err(error) => {
                log_warning(name, "the probe could not be elected", Some(&error));
            }
        }
    }

    /// Closes the breaker in the store.
    pub(crate) async fn close_in_store(
        &self,
        at: usize,
        owner: Owner,
        driver: &Driver,
        by: Instant,
    ) {
        let dependency = &self.dependencies[at];
        let (id, name) = (item_id(dependency.name()), &**dependency.name());
        let closing = [breaker::closing(&id, owner, driver.clock.now())];
        log_info(
            name,
            "the dependency is available again: its breaker closes",
        );
        match first_of(answers_until(by, 1, driver.store.settle(&closing)).await) {
            // An operator or another environment has opened it meanwhile.
            Ok(Settled::Refused(item)) => {
                self.learn_one(at, item.as_deref(), driver.clock.now());
                self.notify();
            }
            Err(error) => log_warning(
                name,
                "the breaker closes in this environment only",
                Some(&error),
            ),
            Ok(Settled::Written) => {}
        }
    }

    fn states(&self) -> MutexGuard<'_, States> {
        // A panic can't leave a state half written, because each is one assignment.
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.send_replace(());
    }
}

const UNREAD: &str = "the breaker's state could not be read";

fn log_info(dependency: &str, what: &'static str) {
    info!(target: LOG, dependency, "{what}");
}

fn log_warning(dependency: &str, what: &'static str, error: Option<&StoreError>) {
    let error = error.map(StoreError::to_string);
    warn!(target: LOG, dependency, error, "{what}");
}

async fn claimed(driver: &Driver, claim: &Claim, by: Instant) -> Result<Claimed, StoreError> {
    let claims = [claim.clone()];
    first_of(answers_until(by, 1, driver.store.claim(&claims)).await)
}

/// The state that follows a request, even if the batch ends before the answer.
struct Outcome<'a> {
    breakers: &'a Breakers,
    at: usize,
    circuit: Circuit,
}

impl<'a> Outcome<'a> {
    fn new(breakers: &'a Breakers, at: usize, circuit: Circuit) -> Self {
        Self {
            breakers,
            at,
            circuit,
        }
    }
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        self.breakers.states().circuits[self.at] = self.circuit;
        self.breakers.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_call_wakes_batches_only_if_their_records_may_start() {
        let plain = Dependency::new("payments");
        let limited = plain.clone().max_in_flight(1);
        for (dependency, tried, wakes) in [
            (&plain, Tried::Succeeded, false),
            (&plain, Tried::Unavailable("payments"), true),
            (&limited, Tried::Succeeded, true),
        ] {
            let breakers = Breakers::new(std::slice::from_ref(dependency), 10);
            let changes = breakers.changes();
            let breakers = Arc::new(breakers);
            let permit = breakers.begin(&[0].into(), Timestamp::default()).ok();
            breakers.ended(&[0], tried);
            drop(permit);
            let has_changed = changes.has_changed().unwrap();
            assert_eq!(has_changed, wakes, "{dependency:?} {tried:?}");
        }
    }
}
