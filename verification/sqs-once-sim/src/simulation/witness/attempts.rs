//! Attempts: their start and their end, and two of a key at once.

use std::time::Duration;

use sqs_once::store::{Fence, Owner};
use sqs_once_judge::{self as judge, Event};
use tokio::time::Instant;

use super::{Attempt, End, Record, Witness};
use crate::simulation::counts::Count;
use crate::simulation::process::Process;
use crate::simulation::property::Property;
use crate::way::Way;

impl Witness {
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
                format!("{process} handles k{key}, which was completed when it was looked up");
            self.violated(Property::RecordedIsOver, what);
        }
        // A recorded key stays recorded, even if its item changes, until it is forgotten or its record expires.
        let keys = &self.keys[key];
        let mut claims = keys.claims.iter();
        let claimed_at = claims
            .rfind(|(ids, given, _)| *ids == process.ids() && *given == fence)
            .map(|(.., at)| *at);
        if keys.recorded_at.is_some() && claimed_at > keys.recorded_at {
            let what = format!("{process} handles k{key}, which was completed when it was claimed");
            self.violated(Property::RecordedIsOver, what);
        }
        let begins_at = self.keys[key].begins_at;
        if self.way(key).claims_before()
            && let Some((forgotten_at, forgotten)) = self.keys[key].last_forgotten(claimed_at)
            && fence.get() <= forgotten.as_millis()
            // A claim that arrives late, after the table deleted the item, brings its own time back.
            && begins_at.is_none_or(|begins_at| begins_at < forgotten_at)
        {
            let what = format!("{process} handles k{key} with the fence {fence} of an old attempt");
            self.violated(Property::ForgottenIsNew, what);
        }
        let owner = self.uses(process, key, fence);
        let admitted_at = claimed_at.or(looked_up_at).unwrap_or_else(Instant::now);
        // Under both ids of a key.
        let mut attempts = self.attempts.iter();
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
            batch_panicked: false,
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
            admitted: self.timeline.nanos(admitted),
            owns,
        });
    }

    /// Whether the code of an attempt may run now. A handler that can be cancelled does not run in a process whose clock
    /// stood still, unless it [goes on](Self::goes_on).
    pub(super) fn runs(&self, attempt: &Attempt) -> bool {
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

    /// Such code has ended, and its handler can be cancelled again. After a panic of its batch, the record fails only now.
    pub(crate) fn returns(&mut self, attempt: usize) {
        self.attempts[attempt].blocks = false;
        if self.attempts[attempt].batch_panicked {
            self.ended(attempt, End::Failed);
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

    /// A handler panics. A batch handler then fails all its records, those whose code runs on once it has ended.
    pub(crate) fn panicked(&mut self, attempt: usize, is_batched: bool) {
        let invocation = self.attempts[attempt].invocation;
        for (number, one) in self.attempts.iter_mut().enumerate() {
            let fails_too = is_batched && one.invocation == invocation;
            one.batch_panicked |= fails_too;
            if number == attempt || (fails_too && !one.blocks) {
                one.end.get_or_insert((End::Failed, Instant::now()));
            }
        }
    }
}
