//! Claims that a process learns of, and must use or give back.

use std::time::Duration;

use sqs_once::store::{Fence, Owner};
use tokio::time::Instant;

use super::{Attempt, End, Record, Told, Witness};
use crate::simulation::counts::Count;
use crate::simulation::process::Process;
use crate::simulation::property::Property;

impl Witness {
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
        let is_its = |one: &Attempt| {
            let is_done = one.end.is_some_and(|(end, _)| end == End::Done);
            one.owner.is_none() && one.key == key && one.process.name == process.name && is_done
        };
        let mut known = self.attempts.iter();
        let known = known.position(|one| one.owner == Some(owner));
        // Earlier attempts in a batch may have succeeded behind a failed one, and are never recorded.
        if let Some(at) = known.or_else(|| self.attempts.iter().rposition(is_its)) {
            let attempt = &mut self.attempts[at];
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
        // What it learns in the moment in which its last requests end comes too late for another request.
        let now = Instant::now();
        let is_late = now - begun >= self.timeout * 24 / 25;
        let mut told = self.told.iter();
        let unused = told.find(|told| {
            let is_its = told.process == process.name && told.at >= begun && !told.used;
            is_its && !(is_late && now - told.at < Duration::from_millis(1))
        });
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
