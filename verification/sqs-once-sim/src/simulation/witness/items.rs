//! Changes of items: by requests, by an operator and by the table.

use std::fmt::from_fn;
use std::time::Duration;

use sqs_once::store::{Fence, Item, Owner, Status, Timestamp};
use sqs_once_judge::Event;
use tokio::time::Instant;

use super::{End, Witness, short};
use crate::simulation::counts::Count;
use crate::simulation::ids::{Ids, key_of};
use crate::simulation::plan::SKEW;
use crate::simulation::process::Process;
use crate::simulation::property::Property;
use crate::way::Way;

/// By how much two clocks differ at most, and a second, to which an expiration is rounded.
const CLOCKS: Duration = Duration::from_millis(2 * SKEW.unsigned_abs() + 1000);

impl Witness {
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
        let forgotten_at = self.timeline.nanos(at);
        self.judge(Event::Forgotten {
            key,
            at: forgotten_at,
        });
        let state = &mut self.keys[key];
        state.forgotten.push((at, now));
        (state.recorded_at, state.expires_at) = (None, None);
    }

    /// Forgets the record of a key whose retention has ended.
    pub(super) fn expire(&mut self, key: usize) {
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
        state.is_deleted = true;
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
            let what = format!("k{key}, which is completed, was claimed by {}", short(by));
            self.violated(Property::RecordedIsOver, what);
        }
        let now = Instant::now();
        let state = &mut self.keys[key];
        let forgotten = state.last_forgotten(Some(now));
        let mut claims = state.claims.iter();
        let is_old = claims.any(|(earlier, last, _)| *earlier == ids && *last >= fence)
            || forgotten.is_some_and(|(_, at)| at.as_millis() >= fence.get());
        if state.is_deleted && before.is_none() && is_old {
            // Its first copy, late: the item would have refused it.
            state.begins_at = Some(now);
        }
        let before = before.filter(|item| item.status == Status::InProgress);
        if before.and_then(|item| item.lease_until) > Some(Timestamp::default()) {
            self.counts.add(Count::TakenOver);
        }
        let state = &mut self.keys[key];
        state.claims.push((ids, fence, now));
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
