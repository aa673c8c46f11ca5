//! Observes every event and checks the properties. An independent judge checks those that users know.

mod attempts;
mod effects;
mod items;
mod told;

use std::time::Duration;

use sqs_once::store::{Fence, Owner, Timestamp};
use sqs_once_judge::{Event, Judge, Wrong};
use tokio::time::Instant;

use super::counts::{Count, Counts};
use super::ids::{Ids, route_of};
use super::mutant::Mutant;
use super::options::Options;
use super::plan::Plan;
use super::process::Process;
use super::property::{Property, Violation};
use super::timeline::Timeline;
use crate::way::Way;

/// What the witness knows of one key.
#[derive(Debug, Default)]
struct Key {
    /// The attempts whose effect happened, with their times, in that order.
    effects: Vec<(usize, Instant)>,
    /// Since the key was forgotten.
    recorded_at: Option<Instant>,
    /// The payload whose effect was recorded last.
    payload: Option<usize>,
    /// When its retention ends, by the slowest clocks.
    expires_at: Option<Instant>,
    /// When an operator forgot the key, and that time by the operator's clock, or when its record expired.
    forgotten: Vec<(Instant, Timestamp)>,
    /// Under each of its ids.
    last_fence: [Option<Fence>; Ids::ALL.len()],
    /// When each fence was assigned, and under which id.
    claims: Vec<(Ids, Fence, Instant)>,
    /// The owners whose claim of the key was released or completed.
    ended: Vec<Owner>,
    /// The owners of its claims, and of its claims before the table deleted the item.
    claimants: Vec<Owner>,
    gone: Vec<Owner>,
    /// Whether the table has ever deleted the item.
    is_deleted: bool,
    /// When a late request of such an owner arrived, or a late claim that the deleted item would have refused. The fence
    /// that it wrote tells the time of its claim.
    begins_at: Option<Instant>,
    /// The processes that looked the key up, with their times.
    lookups: Vec<(usize, Instant)>,
}

impl Key {
    /// When the key was last forgotten before this.
    fn last_forgotten(&self, moment: Option<Instant>) -> Option<(Instant, Timestamp)> {
        let forgotten = self.forgotten.iter().copied();
        let before = |(at, _): &(Instant, Timestamp)| moment.is_some_and(|moment| *at <= moment);
        // A record that arrives late may have expired before an earlier one.
        forgotten.filter(before).max()
    }
}

#[derive(Debug)]
struct Attempt {
    key: usize,
    payload: usize,
    message: usize,
    process: Process,
    invocation: usize,
    /// When its key was claimed or looked up.
    admitted_at: Instant,
    started_at: Instant,
    fence: Fence,
    /// The owner of its claim and its record, once known.
    owner: Option<Owner>,
    /// Whether its code can't be cancelled.
    blocks: bool,
    /// Whether the call of its batch has panicked.
    batch_panicked: bool,
    unanswered: bool,
    end: Option<(End, Instant)>,
    record: Record,
    /// When its record was carried out.
    recorded_at: Option<Instant>,
}

impl Attempt {
    fn is_at_work(&self) -> bool {
        self.end.is_none() && !self.process.is_dead()
    }
}

/// What an attempt knows about its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    NotSent,
    /// No answer has arrived.
    Sent,
    Written,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Failed,
    /// Dropped before it ended.
    Cancelled,
}

/// A claim whose sender learnt that it owns the key.
#[derive(Debug)]
struct Told {
    process: usize,
    owner: Owner,
    fence: Fence,
    key: usize,
    ids: Ids,
    at: Instant,
    used: bool,
}

#[derive(Debug)]
struct Invocation {
    begun: Instant,
    /// Whether its process was frozen, and its monotonic clock stood still.
    stood_still: bool,
}

#[derive(Debug)]
pub(crate) struct Witness {
    /// How each route records effects.
    ways: [Way; 2],
    /// The only property to check, if set.
    only: Option<Property>,
    retention: Option<Duration>,
    /// Of each invocation.
    timeout: Duration,
    /// Whether leases don't hold, because clocks and kills are off by more than they allow for.
    is_hostile: bool,
    judge: Judge,
    keys: Vec<Key>,
    attempts: Vec<Attempt>,
    invocations: Vec<Invocation>,
    told: Vec<Told>,
    /// The owners whose claims compare nothing, because their process runs the previous version.
    old_owners: Vec<Owner>,
    pub(crate) counts: Counts,
    pub(crate) violation: Option<Violation>,
    timeline: Timeline,
}

impl Witness {
    pub(crate) fn new(plan: &Plan, options: &Options, timeline: Timeline) -> Self {
        Self {
            ways: plan.ways,
            retention: plan.retention,
            timeout: plan.timeout,
            only: options.mutant.and_then(Mutant::breaks),
            is_hostile: options.is_hostile,
            judge: Judge::default().awaiting_hooks(plan.has_hooks),
            keys: (0..plan.keys).map(|_| Key::default()).collect(),
            attempts: Vec::new(),
            invocations: Vec::new(),
            told: Vec::new(),
            old_owners: Vec::new(),
            counts: Counts::default(),
            violation: None,
            timeline,
        }
    }

    fn way(&self, key: usize) -> Way {
        self.ways[route_of(key)]
    }

    /// Records a violation. Only the first one is kept.
    pub(crate) fn violated(&mut self, property: Property, what: String) {
        let beyond = match property {
            Property::OneOwner => Some(Count::BeyondOwners),
            Property::RepeatsInWindows => Some(Count::BeyondRepeats),
            // A worker that is never in time never finishes.
            Property::AllEnds => Some(Count::BeyondEnds),
            _ => None,
        };
        if let (true, Some(beyond)) = (self.is_hostile, beyond) {
            return self.counts.add(beyond);
        }
        let is_judged = self.only.is_none_or(|only| only == property);
        if is_judged && self.violation.is_none() {
            self.timeline.note("!!", format_args!("{property}: {what}"));
            self.violation = Some(Violation { property, what });
        }
    }

    pub(crate) fn note(&self, who: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.timeline.note(who, what);
    }

    pub(crate) fn invoked(&mut self) -> usize {
        self.counts.add(Count::Invocations);
        self.invocations.push(Invocation {
            begun: Instant::now(),
            stood_still: false,
        });
        self.invocations.len() - 1
    }

    pub(crate) fn begun(&self, invocation: usize) -> Instant {
        self.invocations[invocation].begun
    }

    pub(crate) fn stands_still(&mut self, invocation: usize) {
        self.counts.add(Count::StoodStill);
        self.invocations[invocation].stood_still = true;
    }

    pub(crate) fn claims_as_before(&mut self, owner: Owner) {
        self.counts.add(Count::OldClaims);
        self.old_owners.push(owner);
    }

    pub(crate) fn has_happened(&self, key: usize) -> bool {
        self.judge.has_happened(key)
    }

    /// Tells the judge of an event.
    pub(crate) fn judge(&mut self, event: Event) {
        for wrong in self.judge.see(event) {
            let (property, what) = match wrong {
                Wrong::NoEffect { message, key } => (
                    Property::NothingLost,
                    format!("m{message} was acknowledged without the effect of k{key}"),
                ),
                Wrong::NoRecord { message, key } => (
                    Property::NothingLost,
                    format!("m{message} was acknowledged without the record of k{key}"),
                ),
                Wrong::NoHook { message } => (
                    Property::HooksRun,
                    format!("m{message} was acknowledged, and no hook of it has ended well"),
                ),
                Wrong::CommittedAgain { key } => (
                    Property::CommitsOnce,
                    format!("the effect of k{key} was committed again"),
                ),
                Wrong::Overtook { message, skipped } => (
                    Property::OrderKept,
                    format!("the effect of m{message} came before that of m{skipped}"),
                ),
                Wrong::TwoOwners { stale, owner } => {
                    let Attempt { key, process, .. } = &self.attempts[stale];
                    if process.watchdog().drains() {
                        // A process that must end first answers its other batches.
                        self.counts.add(Count::BesideDraining);
                        continue;
                    }
                    let other = &self.attempts[owner].process;
                    let is_new =
                        matches!(event, Event::Started { attempt, .. } if attempt.number == owner);
                    let what = match is_new {
                        true => format!("{other} handles k{key} while {process} does"),
                        false => format!("{process} handles k{key} after {other} began to"),
                    };
                    (Property::OneOwner, what)
                }
            };
            self.violated(property, what);
        }
    }
}

/// The first digits of an owner.
pub(crate) fn short(owner: Owner) -> String {
    let mut text = owner.to_string();
    text.truncate(6);
    text
}
