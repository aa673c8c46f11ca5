//! Makes one history of the lines of each key, and has it judged.

use super::lines::{End, Lines, Outcome, Turn};
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
/// The consumer's default, in milliseconds.
pub(super) const ASSUMED_RETENTION: u64 = 28 * DAY;

/// The judged histories of all keys.
#[derive(Debug, Default)]
pub(super) struct Histories {
    pub(super) outcomes: BTreeMap<&'static str, u64>,
    pub(super) keys: u64,
    pub(super) effects: u64,
    /// From the first line to the last.
    pub(super) span: Option<(u64, u64)>,
    /// In milliseconds, if the user gave it.
    pub(super) retention: Option<u64>,
    /// Keys with one effect within the retention.
    pub(super) once: u64,
    pub(super) repeated: Vec<Repeated>,
    /// Keys with an attempt that may have had another effect, and its code.
    pub(super) unknown: Vec<(Key, u16)>,
    /// Keys with effects so far apart that the completion may have expired.
    pub(super) expired: Vec<Key>,
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
    /// Effects behind a message of their group that may have become a dead letter.
    pub(super) behind: u64,
    /// Effects without a place in a group.
    pub(super) without_place: u64,
    pub(super) ended: u64,
    /// Messages whose last line says that they return.
    pub(super) returned: u64,
    /// Messages with a last line of the outcome terminal.
    pub(super) terminal: u64,
    /// Lines without a key.
    pub(super) without_key: u64,
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
    /// Whether the retention is assumed.
    pub(super) is_assumed: bool,
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
    pub(super) fn judge(
        lines: &mut Lines,
        mut table: Option<Table>,
        retention: Option<Duration>,
    ) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut judged = Self {
            retention: retention.map(millis),
            ..Self::default()
        };
        // Files may overlap.
        lines.ends.sort_unstable();
        lines.ends.dedup();
        judged.count(lines);
        let unlogged = lines.code("a delivery without a line");
        judged.judge_messages(&mut lines.ends, unlogged);

        // An effect comes before a duplicate that another environment logged with a clock that is behind.
        let place = |end: &End| match end.outcome {
            Outcome::Duplicate => end.at.saturating_add(SKEW),
            _ => end.at,
        };
        let order = |end: &End| (end.key, place(end), end.message, end.outcome);
        lines.ends.sort_unstable_by_key(order);
        if let Some(table) = &mut table {
            table.sort();
        }
        let keyless = lines.ends.partition_point(|end| end.key.is_none());
        judged.without_key = keyless as u64;
        let keyed = &lines.ends[keyless..];
        let mut history = History {
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

        lines.turns.sort_unstable();
        lines.turns.dedup();
        for group in lines.turns.chunk_by(|one, other| one.group == other.group) {
            judged.judge_order(group);
        }
        let effects = lines.turns.iter().filter(|turn| turn.is_effect()).count();
        let processed = judged.outcomes.get(Outcome::Processed.name());
        judged.without_place = processed.map_or(0, |all| all.saturating_sub(effects as u64));
        judged
    }

    pub(super) fn is_violated(&self) -> bool {
        let mut repeated = self.repeated.iter();
        repeated.any(|one| one.certainty != Certainty::OfTwoKeys)
            || !self.before_effect.is_empty()
            || !self.overtaken.is_empty()
    }

    fn count(&mut self, lines: &mut Lines) {
        let [mismatch, lost] = ["payload-mismatch", "lease-lost"].map(|code| lines.code(code));
        for end in &lines.ends {
            *self.outcomes.entry(end.outcome.name()).or_default() += 1;
            self.mismatches += u64::from(end.code == mismatch);
            self.leases_lost += u64::from(end.code == lost);
            let (first, last) = self.span.unwrap_or((end.at, end.at));
            self.span = Some((first.min(end.at), last.max(end.at)));
        }
    }

    /// Judges how each message ended, and notes deliveries without a line: a killed process writes none.
    fn judge_messages(&mut self, ends: &mut [End], unlogged: u16) {
        for ends in ends.chunk_by_mut(|one, other| one.message == other.message) {
            let last = ends.iter().map(|end| end.outcome).next_back();
            match last {
                _ if ends.iter().any(|end| end.outcome.is_end()) => self.ended += 1,
                Some(Outcome::Terminal) => self.terminal += 1,
                _ => self.returned += 1,
            }
            let deliveries = ends.iter().map(|end| usize::from(end.deliveries)).max();
            let missing = deliveries.unwrap_or_default().saturating_sub(ends.len());
            // A line of a batch that ended early has no key.
            let key = ends.iter().find_map(|end| end.key);
            for end in ends.iter_mut() {
                end.key = end.key.or(key);
            }
            if let (Some(first), 1..) = (ends.first_mut(), missing) {
                if first.unknown == 0 {
                    first.code = unlogged;
                }
                let missing = u16::try_from(missing).unwrap_or(u16::MAX);
                first.unknown = first.unknown.saturating_add(missing);
            }
        }
    }

    /// Judges the effects of one group, by their sequence numbers.
    fn judge_order(&mut self, turns: &[Turn]) {
        // After a redrive it has another number, so that its place is not known.
        let has_left = |lines: &&[Turn]| {
            let is_end = lines.iter().any(|line| line.outcome.is_end());
            let is_terminal = |line: &Turn| line.outcome == Outcome::Terminal;
            !is_end || lines.iter().any(is_terminal)
        };
        let mut messages = turns.chunk_by(|one, other| one.sequence == other.sequence);
        let left = messages.find(has_left).and_then(<[Turn]>::first);
        let mut first_later = u64::MAX;
        let mut is_overtaken = false;
        for turn in turns.iter().rev().filter(|turn| turn.is_effect()) {
            match turn.at.checked_sub(first_later) {
                _ if left.is_some_and(|left| left.sequence <= turn.sequence) => self.behind += 1,
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
    table: Option<&'a Table>,
    judged: &'a mut Histories,
}

impl History<'_> {
    /// The lines of one key, in order.
    fn of(&mut self, key: Key, ends: &[End]) {
        self.judged.keys += 1;
        let mut judge = Judge::default();
        let mut messages: HashMap<u64, usize> = HashMap::new();
        let last_effect = ends.iter().rfind(|end| end.outcome == Outcome::Processed);
        let told = last_effect.filter(|_| ends.len() > 1);
        let told = told.and_then(|last| self.told_retention(key, last));
        let given = self.judged.retention.or(told);
        let retention = given.unwrap_or(ASSUMED_RETENTION);
        let unknown = ends.iter().find(|end| end.unknown > 0);
        let mut last: Option<&End> = None;
        let mut repeats = 0;
        let mut attempts = 0;
        let mut has_expired = false;
        for end in ends {
            attempts += u64::from(end.unknown);
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
                    attempts += 1;
                    // The table no longer knows the effect before.
                    if last.is_some_and(|last| end.at - last.at > retention) {
                        judge.see(Event::Forgotten { key: 0, at: end.at });
                        has_expired = true;
                    }
                    // The line says that the effect and the completion are over.
                    let effect = Event::Effect {
                        key: 0,
                        payload: 0,
                        commits: true,
                    };
                    let wrong = judge.see(effect);
                    repeats += u64::from(wrong.contains(&Wrong::CommittedAgain { key: 0 }));
                    judge.see(Event::Recorded(0));
                    judge.see(Event::Acknowledged(message));
                    last = Some(end);
                }
                Outcome::Duplicate => {
                    let wrong = judge.see(Event::Acknowledged(message));
                    match wrong.is_empty() {
                        true => self.judged.after_effect += 1,
                        false => {
                            self.unexplained(key, end, last_effect.is_some(), unknown.is_some());
                        }
                    }
                    self.count_cause(end, last);
                }
                _ => {}
            }
        }
        match (last_effect, unknown) {
            (Some(last), _) if repeats > 0 => {
                self.repeated(key, ends, repeats + 1, last.at, given.is_none());
            }
            (_, Some(end)) if attempts > 1 => self.judged.unknown.push((key, end.code)),
            (Some(_), _) if has_expired && self.judged.retention.is_none() => {
                self.judged.expired.push(key);
            }
            (Some(_), _) => self.judged.once += 1,
            (None, _) => {}
        }
    }

    /// The shortest retention that the table's item shows, whichever effect completed it.
    fn told_retention(&self, key: Key, last_effect: &End) -> Option<u64> {
        match self.table?.of(key) {
            [item] if item.is_completed => {
                let expiration = item.expiration?;
                Some(expiration.saturating_sub(last_effect.at))
            }
            _ => None,
        }
    }

    fn repeated(&mut self, key: Key, ends: &[End], effects: u64, last: u64, is_assumed: bool) {
        let processed = ends.iter().filter(|end| end.outcome == Outcome::Processed);
        let mut messages: Vec<u64> = processed.map(|end| end.message).collect();
        let all = messages.len();
        messages.sort_unstable();
        messages.dedup();
        let certainty = match self.table.map_or(0, |table| table.of(key).len()) {
            _ if messages.len() < all || Names::is_whole(key) => Certainty::Certain,
            0 => Certainty::Possible,
            1 => Certainty::Confirmed,
            _ => Certainty::OfTwoKeys,
        };
        self.judged.repeated.push(Repeated {
            key,
            effects,
            last,
            certainty,
            is_assumed,
        });
    }

    /// A duplicate before any effect of its key in the files. Its key may have a later one, or an attempt that may have
    /// had one.
    fn unexplained(&mut self, key: Key, end: &End, has_effect: bool, has_attempt: bool) {
        let first = self.judged.span.map_or(end.at, |(first, _)| first);
        let since = end.at.saturating_sub(first);
        let is_completed = |table: &Table| matches!(table.of(key), [item] if item.is_completed);
        let retention = self.judged.retention;
        if !has_effect && self.table.is_some_and(is_completed) {
            self.judged.after_effect += 1;
        } else if !has_attempt && retention.is_some_and(|retention| since > retention) {
            // The completion that made it a duplicate is younger than the first line.
            self.judged.before_effect.push(key);
        } else {
            self.judged.effect_unknown += 1;
        }
    }

    /// Counts why a message was a duplicate, by the last effect of its key before it.
    fn count_cause(&mut self, end: &End, effect: Option<&End>) {
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
