//! The simulated watchdog. The engine's own is a thread of `run`; this one ends a process by the same rule.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqs_once::store::{Owner, Settlement, Settling, Timestamp};
use sqs_once::unstable::Clock;
use tokio::time::sleep;

use super::clock::true_time_at;
use super::counts::Count;
use super::lambda::Environment;
use super::mutant::Mutant;
use super::property::Property;

/// How often the watchdog compares the leases with the clock of the process.
const PERIOD: Duration = Duration::from_millis(100);
/// The engine's shortest and longest lease after the end of an invocation. Code ends when a third is left.
const MARGIN: Duration = Duration::from_secs(3);
const RENEWED: Duration = Duration::from_secs(10);

/// What the watchdog of a process knows.
#[derive(Debug, Default)]
pub(crate) struct Watchdog(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The invocations without an answer.
    in_flight: HashSet<usize>,
    /// Those with code that can't keep its lease.
    lapsed: HashSet<usize>,
    /// When code on a claim must have ended whose lease was renewed.
    ends_by: HashMap<Owner, Timestamp>,
    /// The owners that another worker has replaced.
    lost: HashSet<Owner>,
    drains: bool,
}

impl Watchdog {
    pub(crate) fn invoked(&self, invocation: usize) {
        self.0.lock().in_flight.insert(invocation);
    }

    pub(crate) fn answered(&self, invocation: usize) {
        self.0.lock().in_flight.remove(&invocation);
    }

    /// Whether the process takes no further event, because code can't keep its lease.
    pub(crate) fn drains(&self) -> bool {
        self.0.lock().drains
    }

    /// The process learns that the lease of its claim is renewed, or lost.
    pub(crate) fn renewed(&self, renewal: &Settlement, is_lost: bool) {
        let Settling::Renew { lease_until, .. } = renewal.settling else {
            return;
        };
        let mut known = self.0.lock();
        if is_lost {
            known.lost.insert(renewal.owner);
        } else {
            let left = lease_until.since(Timestamp::default()) - RENEWED / 3;
            let ends_by = Timestamp::default() + left;
            known.ends_by.insert(renewal.owner, ends_by);
        }
    }

    /// Whether the lease of a claim was renewed.
    pub(crate) fn has_renewed(&self, owner: Owner) -> bool {
        self.0.lock().ends_by.contains_key(&owner)
    }

    fn is_lost(&self, owner: Option<Owner>) -> bool {
        owner.is_some_and(|owner| self.0.lock().lost.contains(&owner))
    }

    fn ends_by(&self, owner: Option<Owner>, first: Timestamp) -> Timestamp {
        let known = self.0.lock();
        let renewed = owner.and_then(|owner| known.ends_by.get(&owner));
        renewed.copied().unwrap_or(first)
    }

    /// Whether other batches must be answered before the process ends.
    fn must_wait(&self, lapsed: Option<usize>) -> bool {
        let mut known = self.0.lock();
        known.lapsed.extend(lapsed);
        !known.in_flight.is_subset(&known.lapsed)
    }

    /// Returns whether this is new.
    fn begins_to_drain(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().drains, true)
    }
}

/// Watches code that can't be cancelled, until it ends or the process does.
pub(crate) async fn watch(environment: Arc<Environment>, attempt: usize, invocation: usize) {
    let Environment { world, process, .. } = &*environment;
    if world.mutant() == Some(Mutant::NoWatchdog) {
        return;
    }
    let (owner, begun) = {
        let witness = world.witness();
        (witness.owner_of(attempt), witness.begun(invocation))
    };
    let first = true_time_at(world.started, begun + world.plan.timeout) + MARGIN * 2 / 3;
    let watchdog = process.watchdog();
    let mut has_lapsed = false;
    loop {
        process.thaws().await;
        let is_at_work = world.witness().is_at_work(attempt);
        if process.is_dead() || (!is_at_work && !watchdog.drains()) {
            return;
        }
        if is_at_work && environment.clock.now() >= watchdog.ends_by(owner, first) {
            if !has_lapsed && !process.has_been_troubled_after(begun) && !watchdog.is_lost(owner) {
                let what = format!("{process} can't keep a lease, and nothing disturbed it");
                world.witness().violated(Property::CodeKeepsItsKey, what);
            }
            has_lapsed = true;
        }
        if has_lapsed || watchdog.drains() {
            if !watchdog.must_wait(has_lapsed.then_some(invocation)) {
                world.note(process, "ends itself: code can't keep its lease");
                world.count(Count::EndedThemselves);
                process.die();
                // It may be idle, and only another process takes an event then.
                return world.changed.notify_one();
            }
            if watchdog.begins_to_drain() {
                world.note(process, "takes no other event: code can't keep its lease");
                world.count(Count::Drained);
            }
        }
        sleep(PERIOD).await;
    }
}
