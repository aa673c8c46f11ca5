//! Makes one history of the lines of each key, and has it judged.

use super::lines::{End, Lines, Outcome, Reason, Turn};
use super::names::{Key, Names};
use super::table::Table;
use sqs_once_judge::{Event, Judge, Wrong};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How far the clocks of two environments may differ, in milliseconds: the default lease margin.
const SKEW: u64 = 3_000;
/// For how long SQS itself recognises a message that is sent again to a FIFO queue, in milliseconds.
const RECENTLY: u64 = 5 * 60 * 1_000;
const DAY: u64 = 24 * 60 * 60 * 1_000;

/// The judged histories of all keys.
#[derive(Debug, Default)]
pub(super) struct Histories {
    pub(super) outcomes: BTreeMap<&'static str, u64>,
    pub(super) keys: u64,
    pub(super) effects: u64,
    /// From the first line to the last.
    pub(super) span: Option<(u64, u64)>,
    /// Keys with one effect within the retention.
    pub(super) once: u64,
    pub(super) repeated: Vec<Repeated>,
    /// Acknowledged duplicates whose effect is known.
    pub(super) after_effect: u64,
    pub(super) before_effect: Vec<Key>,
    /// Acknowledged duplicates whose effect is in none of the files.
    pub(super) effect_unknown: u64,
    pub(super) in_order: u64,
    /// Groups in which a message had its effect before an earlier one.
    pub(super) overtaken: Vec<u64>,
    /// Effects that came before an earlier message's by less than clocks may differ.
    pub(super) order_unknown: u64,
    pub(super) ended: u64,
    /// Messages whose last line says that they return.
    pub(super) returned: u64,
    pub(super) causes: Causes,
    pub(super) mismatches: u64,
    pub(super) leases_lost: u64,
    pub(super) of_table: Option<OfTable>,
}

/// A key with several effects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeated {
    pub(super) key: Key,
    pub(super) effects: u64,
    pub(super) last: u64,
    pub(super) certainty: Certainty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// One message had the effect twice, or the list names whole keys.
    Certain,
    /// The table has one key with these digits.
    Confirmed,
    /// Two keys may have these digits.
    Possible,
    /// The table has several keys with these digits.
    OfTwoKeys,
}

/// Why a message was a duplicate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Causes {
    /// SQS delivered the message with the effect again.
    pub(super) redelivered: u64,
    /// Another message, by the time since the effect.
    pub(super) sent_within_minutes: u64,
    pub(super) sent_within_a_day: u64,
    pub(super) sent_later: u64,
}

/// What only the table says.
#[derive(Clone, Debug, Default)]
pub(super) struct OfTable {
    pub(super) items: u64,
    /// Completed keys without an acknowledged message.
    pub(super) unacknowledged: Vec<Key>,
    /// Claims that lapsed before the last line.
    pub(super) lapsed: Vec<Key>,
}

impl Histories {
    pub(super) fn judge(lines: &mut Lines, mut table: Option<Table>, retention: Duration) -> Self {
        // An effect comes before a duplicate that another environment logged with a clock that is behind.
        let place = |end: &End| match end.outcome {
            Outcome::Duplicate => end.at.saturating_add(SKEW),
            _ => end.at,
        };
        let order = |end: &End| (end.key, place(end), end.message, end.outcome);
        lines.ends.sort_unstable_by_key(order);
        // Files may overlap.
        lines.ends.dedup();

        if let Some(table) = &mut table {
            table.sort();
        }
        let mut judged = Self::default();
        judged.count(&lines.ends);
        let retention = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
        let keyed = lines.ends.iter().position(|end| end.key.is_some());
        let keyed = &lines.ends[keyed.unwrap_or(lines.ends.len())..];
        let mut history = History {
            retention,
            table: table.as_ref(),
            judged: &mut judged,
        };
        for ends in keyed.chunk_by(|one, other| one.key == other.key) {
            if let [End { key: Some(key), .. }, ..] = ends {
                history.of(*key, ends);
            }
        }
        judged.repeated.sort_by_key(|one| Reverse(one.effects));
        judged.of_table = table.map(|table| judged.compare(&table, keyed));
        lines.ends.sort_unstable_by_key(|end| (end.message, end.at));
        judged.count_messages(&lines.ends);
        lines.turns.sort_unstable();
        lines.turns.dedup();
        for group in lines.turns.chunk_by(|one, other| one.group == other.group) {
            judged.judge_order(group);
        }
        judged
    }

    pub(super) fn is_violated(&self) -> bool {
        let mut repeated = self.repeated.iter();
        repeated.any(|one| one.certainty != Certainty::OfTwoKeys)
            || !self.before_effect.is_empty()
            || !self.overtaken.is_empty()
    }

    fn count(&mut self, ends: &[End]) {
        for end in ends {
            *self.outcomes.entry(end.outcome.name()).or_default() += 1;
            self.mismatches += u64::from(end.reason == Reason::PayloadMismatch);
            self.leases_lost += u64::from(end.reason == Reason::LeaseLost);
            let (first, last) = self.span.unwrap_or((end.at, end.at));
            self.span = Some((first.min(end.at), last.max(end.at)));
        }
    }

    /// Judges the effects of one group, by their sequence numbers.
    fn judge_order(&mut self, turns: &[Turn]) {
        let mut first_later = u64::MAX;
        let mut is_overtaken = false;
        for turn in turns.iter().rev() {
            match turn.at.checked_sub(first_later) {
                None | Some(0) => self.in_order += 1,
                Some(since) if since < SKEW => self.order_unknown += 1,
                Some(_) => is_overtaken = true,
            }
            first_later = first_later.min(turn.at);
        }
        if is_overtaken {
            self.overtaken.extend(turns.first().map(|turn| turn.group));
        }
    }

    fn count_messages(&mut self, ends: &[End]) {
        for ends in ends.chunk_by(|one, other| one.message == other.message) {
            let has_ended = ends.iter().any(|end| {
                let returns = [Outcome::InProgress, Outcome::Failed, Outcome::Unknown];
                !returns.contains(&end.outcome)
            });
            match has_ended {
                true => self.ended += 1,
                false => self.returned += 1,
            }
        }
    }

    fn compare(&self, table: &Table, keyed: &[End]) -> OfTable {
        let last = self.span.map_or(0, |(_, last)| last);
        let is_acknowledged = |key: Key| {
            let start = keyed.partition_point(|end| end.key < Some(key));
            let mut ends = keyed[start..].iter().take_while(|end| end.key == Some(key));
            ends.any(|end| matches!(end.outcome, Outcome::Processed | Outcome::Duplicate))
        };
        let mut found = OfTable {
            items: table.items().len() as u64,
            ..OfTable::default()
        };
        for item in table.items() {
            if item.is_completed && !is_acknowledged(item.key) {
                found.unacknowledged.push(item.key);
            }
            if item.lease.is_some_and(|lease| lease < last) {
                found.lapsed.push(item.key);
            }
        }
        found
    }
}

/// Judges one key after the other.
struct History<'a> {
    retention: u64,
    table: Option<&'a Table>,
    judged: &'a mut Histories,
}

impl History<'_> {
    /// The lines of one key, in order.
    fn of(&mut self, key: Key, ends: &[End]) {
        self.judged.keys += 1;
        let mut judge = Judge::default();
        let mut messages: HashMap<u64, usize> = HashMap::new();
        let mut last: Option<&End> = None;
        let mut repeats = Vec::new();
        for end in ends {
            let next = messages.len();
            let message = *messages.entry(end.message).or_insert_with(|| {
                judge.see(Event::Sent {
                    key: 0,
                    payload: 0,
                    group: None,
                });
                next
            });
            match end.outcome {
                Outcome::Processed => {
                    self.judged.effects += 1;
                    // The table no longer knows the effect before.
                    if last.is_some_and(|last| end.at - last.at > self.retention) {
                        judge.see(Event::Forgotten { key: 0, at: end.at });
                    }
                    // The line says that the effect and the completion are over.
                    let effect = Event::Effect {
                        key: 0,
                        payload: 0,
                        commits: true,
                    };
                    let wrong = judge.see(effect);
                    if wrong.contains(&Wrong::CommittedAgain { key: 0 }) {
                        repeats.push(end);
                    }
                    judge.see(Event::Recorded(0));
                    judge.see(Event::Acknowledged(message));
                    last = Some(end);
                }
                Outcome::Duplicate => {
                    let wrong = judge.see(Event::Acknowledged(message));
                    self.duplicate(key, end, last, !wrong.is_empty());
                }
                _ => {}
            }
        }
        match repeats.last() {
            Some(end) => self.repeated(key, ends, repeats.len() as u64, end.at),
            None if last.is_some() => self.judged.once += 1,
            None => {}
        }
    }

    fn repeated(&mut self, key: Key, ends: &[End], repeats: u64, last: u64) {
        let effects = ends.iter().filter(|end| end.outcome == Outcome::Processed);
        let mut messages: Vec<u64> = effects.map(|end| end.message).collect();
        let all = messages.len();
        messages.sort_unstable();
        messages.dedup();
        let certainty = match self.table.map_or(0, |table| table.of(key).len()) {
            _ if messages.len() < all || Names::is_whole(key) => Certainty::Certain,
            0 => Certainty::Possible,
            1 => Certainty::Confirmed,
            _ => Certainty::OfTwoKeys,
        };
        let effects = repeats + 1;
        self.judged.repeated.push(Repeated {
            key,
            effects,
            last,
            certainty,
        });
    }

    /// A duplicate, after the last effect of its key in the files.
    fn duplicate(&mut self, key: Key, end: &End, effect: Option<&End>, is_unexplained: bool) {
        let first = self.judged.span.map_or(end.at, |(first, _)| first);
        let is_completed = |table: &Table| table.of(key).iter().any(|item| item.is_completed);
        if !is_unexplained || self.table.is_some_and(is_completed) {
            self.judged.after_effect += 1;
        } else if end.at.saturating_sub(first) > self.retention {
            // The completion that made it a duplicate is younger than the first line.
            self.judged.before_effect.push(key);
        } else {
            self.judged.effect_unknown += 1;
        }
        let causes = &mut self.judged.causes;
        let Some(effect) = effect else {
            return;
        };
        match end.at.saturating_sub(effect.at) {
            _ if effect.message == end.message => causes.redelivered += 1,
            since if since <= RECENTLY => causes.sent_within_minutes += 1,
            since if since <= DAY => causes.sent_within_a_day += 1,
            _ => causes.sent_later += 1,
        }
    }
}
