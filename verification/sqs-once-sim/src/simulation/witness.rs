//! Observes every event and checks the properties. An independent judge checks those that users know.

use std::fmt::from_fn;
use std::time::Duration;

use sqs_once::store::{Fence, Item, Owner, Status};
use sqs_once::time::Timestamp;
use sqs_once_judge::{self as judge, Event, Judge, Wrong};
use tokio::time::Instant;

use super::counts::{Count, Counts};
use super::ids::{Ids, key_of, route_of};
use super::mutant::Mutant;
use super::options::Options;
use super::plan::{Plan, SKEW};
use super::process::Process;
use super::property::{Property, Violation};
use super::timeline::Timeline;
use crate::way::Way;

/// By how much two clocks differ at most, and a second, to which an expiration is rounded.
const CLOCKS: Duration = Duration::from_millis(2 * SKEW.unsigned_abs() + 1000);

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
    /// When a late request of such an owner arrived. The fence that it wrote tells the time of its claim.
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
    /// Whether leases don't hold, because clocks and kills are off by more than they allow for.
    is_hostile: bool,
    judge: Judge<Instant>,
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
    pub(crate) fn judge(&mut self, event: Event<Instant>) {
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

    /// A handler starts. Returns the attempt's number.
    pub(crate) fn started(
        &mut self,
        process: &Process,
        invocation: usize,
        message: usize,
        (key, payload): (usize, usize),
        fence: Fence,
    ) -> usize {
        self.counts.add(Count::Handlers);
        self.expire(key);
        // The store does not know which invocation of its process looked a key up.
        let begun = self.begun(invocation);
        let mut lookups = self.keys[key].lookups.iter();
        let looked_up_at = lookups
            .find(|(who, at)| *who == process.name && *at >= begun)
            .map(|(_, at)| *at);
        if self.way(key) == Way::RecordAfter
            && let Some(recorded_at) = self.keys[key].recorded_at
            && looked_up_at.is_none_or(|looked_up_at| looked_up_at > recorded_at)
        {
            let what =
                format!("{process} handles k{key}, which was on record when it was looked up");
            self.violated(Property::RecordedIsOver, what);
        }
        // A recorded key stays recorded, even if its item changes, until it is forgotten or its record expires.
        let keys = &self.keys[key];
        let mut claims = keys.claims.iter();
        let claimed_at = claims
            .rfind(|(ids, given, _)| *ids == process.ids() && *given == fence)
            .map(|(.., at)| *at);
        if keys.recorded_at.is_some() && claimed_at > keys.recorded_at {
            let what = format!("{process} handles k{key}, which was on record when it was claimed");
            self.violated(Property::RecordedIsOver, what);
        }
        if self.way(key).claims_before()
            && let Some((_, forgotten)) = self.keys[key].last_forgotten(claimed_at)
            && fence.get() <= forgotten.as_millis()
        {
            let what = format!("{process} handles k{key} with the fence {fence} of an old attempt");
            self.violated(Property::ForgottenIsNew, what);
        }
        let owner = self.uses(process, key, fence);
        let admitted_at = claimed_at.or(looked_up_at).unwrap_or_else(Instant::now);
        // Under both ids of a key.
        let mut attempts = self.attempts.iter();
        let begins_at = self.keys[key].begins_at;
        let is_earlier = |one: &&Attempt| {
            let counts = begins_at.is_none_or(|begins_at| begins_at <= one.admitted_at);
            one.key == key && one.admitted_at < admitted_at && counts
        };
        if matches!(self.way(key), Way::ClaimFirst | Way::ClaimedWrites)
            && let Some(earlier) = attempts.find(|one| is_earlier(one) && one.fence >= fence)
        {
            let last = earlier.fence;
            let what = format!("{process} handles k{key} with the fence {fence} after {last}");
            self.violated(Property::FencesGrow, what);
        }
        self.attempts.push(Attempt {
            key,
            payload,
            message,
            process: process.clone(),
            invocation,
            admitted_at,
            started_at: Instant::now(),
            fence,
            owner,
            blocks: false,
            unanswered: false,
            end: None,
            record: Record::NotSent,
            recorded_at: None,
        });
        let attempt = self.attempts.len() - 1;
        self.judge_start(key, attempt, admitted_at);
        attempt
    }

    fn judge_start(&mut self, key: usize, attempt: usize, admitted: Instant) {
        for (number, one) in self.attempts[..attempt].iter().enumerate() {
            let other = judge::Attempt { key, number };
            if one.key == key {
                let event = match self.runs(one) {
                    true => Event::Resumed(other),
                    false => Event::Stopped(other),
                };
                self.judge.see(event);
            }
        }
        let owns = self.way(key).has_owners();
        self.judge(Event::Started {
            attempt: judge::Attempt {
                key,
                number: attempt,
            },
            admitted,
            owns,
        });
    }

    /// Whether the code of an attempt may run now. A handler that can be cancelled does not run in a process whose clock
    /// stood still, unless it [goes on](Self::goes_on).
    fn runs(&self, attempt: &Attempt) -> bool {
        let stands_still = match attempt.blocks {
            true => attempt.process.is_frozen(),
            false => self.invocations[attempt.invocation].stood_still,
        };
        attempt.is_at_work() && !stands_still
    }

    /// Code of an attempt runs on.
    pub(crate) fn goes_on(&mut self, attempt: usize) {
        let key = self.attempts[attempt].key;
        self.judge(Event::RunsOn(judge::Attempt {
            key,
            number: attempt,
        }));
    }

    /// From now on, the code of an attempt can't be cancelled.
    pub(crate) fn blocks(&mut self, attempt: usize) {
        self.attempts[attempt].blocks = true;
    }

    /// The code of an attempt has ended, which could not be cancelled.
    pub(crate) fn unblocks(&mut self, attempt: usize, timeout: Duration) {
        let attempt = &self.attempts[attempt];
        let has_renewed = |owner| attempt.process.watchdog().has_renewed(owner);
        let is_outlived = Instant::now() > self.begun(attempt.invocation) + timeout;
        if is_outlived && attempt.is_at_work() && attempt.owner.is_some_and(has_renewed) {
            self.counts.add(Count::Outlived);
        }
    }

    /// A layer or a handler starts in the claim with this fence. Returns the claim's owner.
    pub(crate) fn uses(&mut self, process: &Process, key: usize, fence: Fence) -> Option<Owner> {
        // The last one: an earlier claim may have had this fence, and was released with the fence of the other id.
        let mut told = self.told.iter_mut();
        let told =
            told.rfind(|told| told.ids == process.ids() && told.key == key && told.fence == fence)?;
        told.used = true;
        Some(told.owner)
    }

    /// A layer fails a record whose handler succeeded.
    pub(crate) fn overruled(&mut self, invocation: usize, key: usize) {
        let mut attempts = self.attempts.iter_mut();
        let is_its = |one: &&mut Attempt| one.invocation == invocation && one.key == key;
        if let Some(attempt) = attempts.rfind(is_its) {
            attempt.end = Some((End::Failed, Instant::now()));
        }
    }

    pub(crate) fn is_at_work(&self, attempt: usize) -> bool {
        self.attempts[attempt].is_at_work()
    }

    /// The owner of an attempt's claim.
    pub(crate) fn owner_of(&self, attempt: usize) -> Option<Owner> {
        self.attempts[attempt].owner
    }

    pub(crate) fn unanswered(&mut self, attempt: usize) {
        self.attempts[attempt].unanswered = true;
    }

    pub(crate) fn ended(&mut self, attempt: usize, end: End) {
        let attempt = &mut self.attempts[attempt];
        attempt.end.get_or_insert_with(|| (end, Instant::now()));
    }

    /// A handler panics. A batch handler then fails all its records.
    pub(crate) fn panicked(&mut self, attempt: usize, is_batched: bool) {
        let invocation = self.attempts[attempt].invocation;
        for (number, one) in self.attempts.iter_mut().enumerate() {
            if number == attempt || (is_batched && one.invocation == invocation) {
                one.end.get_or_insert((End::Failed, Instant::now()));
            }
        }
    }

    /// An effect happens that does not commit with a record.
    pub(crate) fn effect(&mut self, attempt: usize) {
        self.counts.add(Count::Effects);
        let Attempt { key, payload, .. } = self.attempts[attempt];
        self.note(
            "effect",
            format_args!("of k{key} by {}", self.attempts[attempt].process),
        );
        self.keys[key].effects.push((attempt, Instant::now()));
        self.judge(Event::Effect {
            key,
            payload,
            commits: false,
        });
    }

    /// Judges repeated effects, once all requests have arrived: only then is it known whether and when the earlier
    /// attempt was recorded.
    pub(crate) fn judge_repeats(&mut self) {
        for key in 0..self.keys.len() {
            let effects = std::mem::take(&mut self.keys[key].effects);
            for (place, (later, later_at)) in effects.iter().enumerate() {
                for (earlier, earlier_at) in &effects[..place] {
                    self.judge_repeat(key, (*earlier, *earlier_at), (*later, *later_at));
                }
            }
            self.keys[key].effects = effects;
        }
    }

    fn judge_repeat(&mut self, key: usize, one: (usize, Instant), two: (usize, Instant)) {
        // The attempt that started later may have been faster.
        let (earlier, later) = (one.0.min(two.0), one.0.max(two.0));
        let window = self.window(earlier, later);
        if let Some(window) = window.or_else(|| self.forgotten(earlier, later)) {
            return self.counts.add(window);
        }
        let told = |(attempt, at): (usize, Instant)| {
            let (process, at) = (&self.attempts[attempt].process, self.timeline.seconds(at));
            format!("in {process} at {at:.3} s")
        };
        let (one, two) = (told(one), told(two));
        let what = format!("the effect of k{key} happened {one} and {two}");
        self.violated(Property::RepeatsInWindows, what);
    }

    /// Why another attempt could start although the effect of the earlier one happened, or was about to happen.
    fn window(&self, earlier: usize, later: usize) -> Option<Count> {
        let (earlier, later) = (&self.attempts[earlier], &self.attempts[later]);
        let recorded_by = |moment: Instant| earlier.recorded_at.is_some_and(|at| at < moment);
        if recorded_by(later.admitted_at) {
            return None;
        }
        let died_at = earlier.process.died_at();
        if died_at.is_some_and(|died_at| !recorded_by(died_at)) {
            return Some(Count::WindowDied);
        }
        let is_over_at = earlier.recorded_at.or(earlier.end.map(|(_, at)| at));
        let overlaps = is_over_at.is_none_or(|at| later.admitted_at <= at);
        let is_elsewhere = earlier.invocation != later.invocation;
        if self.way(earlier.key) == Way::RecordAfter && is_elsewhere && overlaps {
            return Some(Count::WindowConcurrent);
        }
        match earlier.end?.0 {
            End::Cancelled => Some(Count::WindowCancelled),
            End::Failed if earlier.unanswered => Some(Count::WindowUnanswered),
            End::Failed => Some(Count::WindowFailed),
            End::Done => (earlier.record == Record::Sent).then_some(Count::WindowUnrecorded),
        }
    }

    /// Whether an operator forgot the key after one of two attempts was admitted, and before the other one. A handler may
    /// start long after its claim.
    fn forgotten(&self, one: usize, other: usize) -> Option<Count> {
        let [one, other] = [one, other].map(|attempt| &self.attempts[attempt]);
        let first = one.admitted_at.min(other.admitted_at);
        // Without a claim, the lookup that admitted it may be a later one, after a lost answer.
        let last = match self.way(one.key).claims_before() {
            true => one.admitted_at.max(other.admitted_at),
            false => one.started_at.max(other.started_at),
        };
        let forgotten = self.keys[one.key].last_forgotten(Some(last));
        let is_between = forgotten.is_some_and(|(at, _)| first <= at);
        is_between.then_some(Count::WindowForgotten)
    }

    /// An operator has forgotten a key: `after` replaced its item, or the item is deleted.
    pub(crate) fn forgot(&mut self, before: &Item, after: Option<&Item>, now: Timestamp) {
        let (key, ids) = (key_of(&before.id), Ids::of(&before.id));
        self.counts.add(Count::Forgotten);
        let fence = after.and_then(|item| item.fence);
        self.note("operator", format_args!("forgets k{key}, fence {fence:?}"));
        self.starts_anew(key, Instant::now(), now);
        let state = &mut self.keys[key];
        let last_fence = &mut state.last_fence[ids as usize];
        let last = *last_fence;
        *last_fence = last.max(fence);
        if fence <= last {
            let what = format!("k{key} was forgotten with the fence {fence:?} after {last:?}");
            self.violated(Property::FencesGrow, what);
        }
    }

    fn starts_anew(&mut self, key: usize, at: Instant, now: Timestamp) {
        self.judge(Event::Forgotten { key, at });
        let state = &mut self.keys[key];
        state.forgotten.push((at, now));
        (state.recorded_at, state.expires_at) = (None, None);
    }

    /// Forgets the record of a key whose retention has ended.
    fn expire(&mut self, key: usize) {
        let expires_at = self.keys[key].expires_at;
        if let Some(at) = expires_at.filter(|at| *at <= Instant::now()) {
            self.counts.add(Count::Expired);
            // The fence of the next attempt tells a time by a clock that may be slow.
            self.starts_anew(key, at, Timestamp::default());
        }
    }

    /// The table deletes an expired item. From now on, a late copy of an ended claim may claim the key.
    pub(crate) fn deleted(&mut self, item: &Item) {
        let key = key_of(&item.id);
        self.counts.add(Count::DeletedItems);
        self.note("store", format_args!("k{key} has expired and is deleted"));
        self.expire(key);
        if self.keys[key].recorded_at.is_some() {
            let what = format!("k{key} was deleted before the end of its retention");
            self.violated(Property::RecordedIsOver, what);
        }
        let state = &mut self.keys[key];
        state.gone.append(&mut state.claimants);
        state.last_fence[Ids::of(&item.id) as usize] = None;
    }

    /// Whether a key was last completed for another payload.
    pub(crate) fn is_other(&self, key: usize, payload: usize) -> bool {
        let completed = self.keys[key].payload;
        completed.is_some_and(|completed| completed != payload)
    }

    pub(crate) fn looked_up(&mut self, process: &Process, key: usize) {
        self.keys[key].lookups.push((process.name, Instant::now()));
    }

    /// A write has changed a key's item. `by` is the owner of the claim or settlement, and `commits` is whether an
    /// effect was part of it.
    pub(crate) fn changed(
        &mut self,
        key: usize,
        by: Owner,
        before: Option<&Item>,
        after: Option<&Item>,
        commits: bool,
    ) {
        self.expire(key);
        let state = &mut self.keys[key];
        if state.gone.contains(&by) {
            state.begins_at = Some(Instant::now());
        }
        let kind = Kind::of(by, before, after);
        let is_completion = kind == Kind::Completion;
        let what = match kind {
            Kind::Claim => "claimed",
            Kind::Renewal => "renewed",
            Kind::Completion if commits => "committed",
            Kind::Completion => "recorded",
            Kind::Release if after.is_none() => "deleted",
            Kind::Release => "released",
        };
        let fence = after.and_then(|item| item.fence).unwrap_or_default();
        let with = from_fn(|f| match after {
            Some(_) => write!(f, ", fence {fence}"),
            None => Ok(()),
        });
        self.note(
            "store",
            format_args!("k{key} {what} by {}{with}", short(by)),
        );
        let ids = before
            .or(after)
            .map_or(Ids::Plain, |item| Ids::of(&item.id));
        match kind {
            Kind::Claim => return self.claimed(key, ids, by, before, fence),
            Kind::Renewal => {
                let last = before.and_then(|item| item.fence);
                return match before {
                    Some(_) if last != Some(fence) => self.carried_over(key, ids, last, fence),
                    // A late copy that changes nothing, too.
                    Some(before) => self.renewed(key, by, before),
                    None => {}
                };
            }
            Kind::Release if after.is_some() => {
                // No handler has received another fence.
                self.keys[key].last_fence[ids as usize] = Some(fence);
            }
            Kind::Completion | Kind::Release => {}
        }
        let mine = before.is_some_and(|item| item.owner == Some(by));
        let needs_own = !is_completion || (self.way(key) == Way::ClaimFirst && !commits);
        let attempt = self.attempts.iter_mut().rfind(|one| one.owner == Some(by));
        match attempt {
            Some(attempt) if is_completion => {
                attempt.recorded_at.get_or_insert_with(Instant::now);
            }
            // Its effect may still be in flight.
            Some(attempt) if attempt.end.is_some_and(|(end, _)| end == End::Cancelled) => {
                let what = format!(
                    "{} gave k{key} back, whose handler was cancelled",
                    attempt.process
                );
                self.violated(Property::CancelledLapses, what);
            }
            _ => {}
        }
        if needs_own && !mine {
            let what = format!("k{key} was {what} by {}, whose it is not", short(by));
            self.violated(Property::StaleChangesNothing, what);
        }
        // Its key was claimed again, under the other id.
        let mut attempts = self.attempts.iter();
        let admitted_at = attempts.rfind(|one| one.owner == Some(by));
        let admitted_at = admitted_at.map(|one| one.admitted_at);
        let mut attempts = self.attempts.iter();
        if is_completion
            && needs_own
            && let Some(later) = attempts.find(|one| {
                one.key == key && admitted_at.is_some_and(|admitted| admitted < one.admitted_at)
            })
        {
            let what = format!(
                "k{key} was {what} by {} after {} had claimed it",
                short(by),
                later.process
            );
            self.violated(Property::StaleChangesNothing, what);
        }
        let others = before.and_then(|item| item.owner).filter(|one| *one != by);
        let mut attempts = self.attempts.iter();
        if others.is_some()
            && let Some(other) = attempts.find(|one| one.owner == others && self.runs(one))
        {
            let what = format!(
                "k{key} was {what} by {} while {} handles it",
                short(by),
                other.process
            );
            // A clock that is off admits a commit over a claim that has not lapsed yet: the key has two live owners.
            let property = match commits && self.is_hostile {
                true => Property::OneOwner,
                false => Property::StaleChangesNothing,
            };
            self.violated(property, what);
        }
        // A transaction has the last attempt of its key.
        let mut attempts = self.attempts.iter();
        let its = attempts.rfind(|one| one.owner == Some(by));
        let its = its.or_else(|| self.attempts.iter().rfind(|one| one.key == key));
        let payload = its.map_or(0, |its| its.payload);
        let ended_at = its.and_then(|its| its.end).map(|(_, at)| at);
        let retention = self.retention.map(|kept| kept.saturating_sub(CLOCKS));
        let expires_at = retention.zip(ended_at).map(|(kept, at)| at + kept);
        let state = &mut self.keys[key];
        state.ended.push(by);
        if !is_completion {
            return self.counts.add(Count::Releases);
        }
        state.recorded_at.get_or_insert_with(Instant::now);
        state.payload = Some(payload);
        state.expires_at = state.expires_at.max(expires_at);
        let last_fence = &mut state.last_fence[ids as usize];
        *last_fence = (*last_fence).max(Some(fence));
        self.counts.add(Count::Records);
        self.judge(Event::Recorded(key));
        if commits {
            self.counts.add(Count::Commits);
            self.judge(Event::Effect {
                key,
                payload,
                commits,
            });
        }
    }

    fn claimed(&mut self, key: usize, ids: Ids, by: Owner, before: Option<&Item>, fence: Fence) {
        self.counts.add(Count::Claims);
        let is_recorded = self.keys[key].recorded_at.is_some();
        if is_recorded && before.is_some_and(|item| item.status == Status::Completed) {
            let what = format!("k{key}, which is on record, was claimed by {}", short(by));
            self.violated(Property::RecordedIsOver, what);
        }
        let before = before.filter(|item| item.status == Status::InProgress);
        if before.and_then(|item| item.lease_until) > Some(Timestamp::default()) {
            self.counts.add(Count::TakenOver);
        }
        let state = &mut self.keys[key];
        state.claims.push((ids, fence, Instant::now()));
        state.claimants.push(by);
        let last_fence = &mut state.last_fence[ids as usize];
        let (last, is_over) = (*last_fence, state.ended.contains(&by));
        *last_fence = last.max(Some(fence));
        if last.is_some_and(|last| fence <= last) {
            let last = last.unwrap_or_default();
            let what = format!("k{key} was claimed with the fence {fence} after {last}");
            self.violated(Property::FencesGrow, what);
        }
        // A late copy holds the key until its lease lapses, and no handler runs for it.
        if is_over && self.old_owners.contains(&by) {
            self.counts.add(Count::OldReturned);
        } else if is_over && self.keys[key].begins_at.is_none() {
            let what = format!("k{key} was claimed by {}, whose claim had ended", short(by));
            self.violated(Property::EndedStaysEnded, what);
        }
    }

    fn renewed(&mut self, key: usize, by: Owner, before: &Item) {
        self.counts.add(Count::Renewals);
        if before.owner != Some(by) {
            let what = format!("k{key} was renewed by {}, whose it is not", short(by));
            self.violated(Property::StaleChangesNothing, what);
        }
        if self.keys[key].ended.contains(&by) {
            let what = format!("k{key} was renewed by {}, whose claim had ended", short(by));
            self.violated(Property::EndedStaysEnded, what);
        }
    }

    /// A claim continues the fences of the key's other id. No handler has received its first fence.
    fn carried_over(&mut self, key: usize, ids: Ids, last: Option<Fence>, fence: Fence) {
        let state = &mut self.keys[key];
        let mut claims = state.claims.iter();
        let claim = claims.rfind(|(of, given, _)| *of == ids && Some(*given) == last);
        if let Some((.., at)) = claim.copied() {
            state.claims.push((ids, fence, at));
        }
        state.last_fence[ids as usize] = Some(fence);
        self.told
            .iter_mut()
            .filter(|told| told.key == key && told.ids == ids && Some(told.fence) == last)
            .for_each(|told| told.fence = fence);
    }

    /// Returns the fence of the last claim of a key that this process learnt to own.
    pub(crate) fn last_told(&self, process: &Process, key: usize) -> Option<Fence> {
        let mut told = self.told.iter();
        let last = told.rfind(|told| told.process == process.name && told.key == key)?;
        Some(last.fence)
    }

    /// A process learns that it owns a key; `again` if it sent the claim twice.
    pub(crate) fn told(
        &mut self,
        process: &Process,
        key: usize,
        owner: Owner,
        fence: Fence,
        again: bool,
    ) {
        if again {
            self.counts.add(Count::OwnRecognised);
        }
        let told = Told {
            process: process.name,
            owner,
            fence,
            key,
            ids: process.ids(),
            at: Instant::now(),
            used: process.also_reads().is_some(),
        };
        // It claims again if it could not read the other id.
        self.told.retain(|one| one.owner != owner);
        self.told.push(told);
    }

    /// A process with another id for a key knows whether it owns the key, or waits for an answer to know it. Without an
    /// answer, it leaves its claim to lapse.
    pub(crate) fn decides(&mut self, process: &Process, key: usize, knows: bool) {
        let mut told = self.told.iter_mut();
        if let Some(told) = told.rfind(|one| one.process == process.name && one.key == key) {
            told.used = !knows;
        }
    }

    /// A process releases or completes a claim.
    pub(crate) fn settles(&mut self, owner: Owner) {
        let mut told = self.told.iter_mut();
        if let Some(told) = told.find(|told| told.owner == owner) {
            told.used = true;
        }
    }

    /// A process records the result of an attempt. Without a claim, the witness learns the owner only here.
    pub(crate) fn records(&mut self, process: &Process, key: usize, owner: Owner) {
        let is_done = |one: &Attempt| one.end.is_some_and(|(end, _)| end == End::Done);
        let is_its = |one: &&mut Attempt| match one.owner {
            Some(known) => known == owner,
            None => one.key == key && one.process.name == process.name && is_done(one),
        };
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(is_its) {
            attempt.owner = Some(owner);
            if attempt.record == Record::NotSent {
                attempt.record = Record::Sent;
            }
        }
    }

    pub(crate) fn recorded(&mut self, owner: Owner) {
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|one| one.owner == Some(owner)) {
            attempt.record = Record::Written;
        }
    }

    pub(crate) fn answered(&mut self, process: &Process, invocation: usize) {
        self.counts.add(Count::Answers);
        let begun = self.begun(invocation);
        let mut told = self.told.iter();
        let unused =
            told.find(|told| told.process == process.name && told.at >= begun && !told.used);
        if let Some(told) = unused {
            let what = format!(
                "{process} owned k{} and neither ran nor released it",
                told.key
            );
            self.violated(Property::OwnIsUsed, what);
        }
    }

    /// The message that a process last handled for a key.
    pub(crate) fn message_of(&self, process: &Process, key: usize) -> Option<usize> {
        let mut attempts = self.attempts.iter().rev();
        let of = |attempt: &&Attempt| attempt.key == key && attempt.process.name == process.name;
        attempts.find(of).map(|attempt| attempt.message)
    }
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Claim,
    Renewal,
    Completion,
    Release,
}

impl Kind {
    fn of(by: Owner, before: Option<&Item>, after: Option<&Item>) -> Self {
        let Some(after) = after else {
            return Self::Release;
        };
        if after.status == Status::Completed {
            return Self::Completion;
        }
        let Some(before) = before else {
            return Self::Claim;
        };
        let is_lapsed = after.lease_until == Some(Timestamp::default());
        match after.owner == Some(by) && before.owner != Some(by) {
            true => Self::Claim,
            false if is_lapsed => Self::Release,
            // A claim raises the fence.
            false if before.owner == after.owner && before.fence == after.fence => Self::Renewal,
            false if before.lease_until != after.lease_until => Self::Claim,
            // The late copy of a renewal changes nothing.
            false => Self::Renewal,
        }
    }
}

/// The first digits of an owner.
pub(crate) fn short(owner: Owner) -> String {
    let mut text = owner.to_string();
    text.truncate(6);
    text
}
