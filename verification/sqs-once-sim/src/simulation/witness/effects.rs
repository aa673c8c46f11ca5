//! Effects that repeat, and the windows in which they may.

use sqs_once_judge::Event;
use tokio::time::Instant;

use super::{Attempt, End, Record, Witness};
use crate::simulation::counts::Count;
use crate::simulation::property::Property;
use crate::way::Way;

impl Witness {
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
}
