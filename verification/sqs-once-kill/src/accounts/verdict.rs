//! Tells the independent judge of a run's notes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sqs_once_judge::{self as judge, Attempt, Event, Judge};

use super::Wrong;
use crate::history::{Book, Close, Delivery, Note, OrderNotes, What};
use crate::plan::{Plan, Way};
use crate::report::story;

/// How soon after its thaw a process has looked at the clock, however busy the machine is.
const LOOKS_WITHIN: Duration = Duration::from_secs(2);

/// The judge's findings. The key and the message of an order have its number, an attempt has that of its delivery.
#[derive(Default)]
pub(super) struct Verdict {
    /// The violations, each with its order and its reason.
    pub(super) wrong: Vec<(usize, Wrong, String)>,
    /// The effects, by order and note, whose process had just thawed, and another one had begun meanwhile.
    pub(super) of_thawed: HashSet<(usize, usize)>,
}

struct Hearing<'a> {
    plan: &'a Plan,
    book: &'a Book,
    judge: Judge,
    /// The deliveries in frozen processes, with the time of the thaw.
    frozen: HashMap<usize, Option<Duration>>,
    closed: HashSet<usize>,
    counted: HashMap<usize, u64>,
    verdict: Verdict,
}

/// Judges the notes of a run, in the order of time.
pub(super) fn verdict(plan: &Plan, book: &Book) -> Verdict {
    let mut hearing = Hearing {
        plan,
        book,
        judge: Judge::default(),
        frozen: HashMap::new(),
        closed: HashSet::new(),
        counted: HashMap::new(),
        verdict: Verdict::default(),
    };
    for (key, order) in book.orders.iter().enumerate() {
        hearing.sent(key, order);
    }
    let orders = book.orders.iter().enumerate();
    let notes =
        orders.flat_map(|(key, order)| order.notes.iter().enumerate().map(move |at| (key, at)));
    let mut notes: Vec<_> = notes.collect();
    notes.sort_by_key(|(_, (_, note))| note.at);
    for (key, (at, note)) in notes {
        hearing.note(key, at, note);
    }
    for (key, order) in book.orders.iter().enumerate() {
        hearing.counted(key, order.counted.unwrap_or(0));
    }
    hearing.verdict
}

impl Hearing<'_> {
    fn tell(&mut self, event: Event) {
        for wrong in self.judge.see(event) {
            let wrong = match wrong {
                judge::Wrong::NoEffect { message, .. } => {
                    let why = "it was acknowledged before its effect had happened";
                    (message, Wrong::Lost, why.to_owned())
                }
                judge::Wrong::NoRecord { message, .. } => {
                    let why = "it was acknowledged, and its key was not completed";
                    (message, Wrong::Unrecorded, why.to_owned())
                }
                judge::Wrong::NoHook { .. } => continue,
                judge::Wrong::CommittedAgain { key } => {
                    let why = "its effect is there more than once";
                    (key, Wrong::Duplicated, why.to_owned())
                }
                judge::Wrong::TwoOwners { stale, .. } => {
                    let order = self.book.deliveries[stale].order.unwrap_or_default();
                    let why = "the code of two deliveries ran at once";
                    (order, Wrong::Concurrent, why.to_owned())
                }
                judge::Wrong::Overtook { message, skipped } => {
                    let skipped = story(skipped, "sent before it in its message group", self.book);
                    let why = format!("it was handled before {skipped}\nand itself:");
                    (message, Wrong::Disordered, why)
                }
            };
            self.verdict.wrong.push(wrong);
        }
    }

    /// A redriven message loses its place in its group. An order that cannot be handled has no effect.
    fn sent(&mut self, key: usize, order: &OrderNotes) {
        let deliveries = order.notes.iter().filter_map(|note| note.delivery);
        let mut deliveries = deliveries.map(|delivery| &self.book.deliveries[delivery]);
        let is_redriven = deliveries.any(Delivery::is_redriven);
        let is_sent = !order.notes.is_empty() && !is_redriven;
        let keeps_place = self.plan.way == Way::Fifo && is_sent && !order.is_spoilt;
        let group = keeps_place.then(|| Plan::group(key));
        let payload = 0;
        self.tell(Event::Sent {
            key,
            payload,
            group,
        });
        if order.is_spoilt && order.dead_letters > 0 {
            self.tell(Event::Copied(key));
        }
    }

    fn note(&mut self, key: usize, place: usize, note: &Note) {
        let number = note.delivery.unwrap_or_default();
        let attempt = Attempt { key, number };
        match note.what {
            What::Sent(_) | What::Received | What::TrafficFault { .. } => {}
            // A killed process's request may arrive after the kill.
            What::Begun { .. } if self.closed.contains(&number) => {}
            What::Begun { .. } => {
                self.tell(Event::Started {
                    attempt,
                    admitted: note.at.as_nanos() as u64,
                    owns: true,
                });
                // The ledger may learn it just after the freeze.
                if self.frozen.get(&number) == Some(&None) {
                    self.tell(Event::Stopped(attempt));
                }
            }
            What::Effect { .. } => self.effect(attempt, place, note.at),
            What::Recorded => self.tell(Event::Recorded(key)),
            What::Counted(times) => self.counted(key, times),
            What::Frozen => {
                self.frozen.insert(number, None);
                self.tell(Event::Stopped(attempt));
            }
            What::Thawed => {
                self.frozen.insert(number, Some(note.at));
                if !self.closed.contains(&number) {
                    self.tell(Event::Resumed(attempt));
                }
            }
            What::Gone => self.tell(Event::Stopped(attempt)),
            What::Closed(close) => self.is_closed(attempt, close),
        }
    }

    /// The handler ends with its effect. If it was frozen and goes on, another one may have begun.
    fn effect(&mut self, attempt: Attempt, place: usize, at: Duration) {
        let Attempt { key, number } = attempt;
        if let Some(thawed_at) = self.frozen.get(&number).copied() {
            let before = self.verdict.wrong.len();
            self.tell(Event::RunsOn(attempt));
            let has_looked = thawed_at.is_none_or(|thawed_at| at >= thawed_at + LOOKS_WITHIN);
            if self.verdict.wrong.len() > before && !has_looked {
                self.verdict.wrong.truncate(before);
                self.verdict.of_thawed.insert((key, place));
            }
        }
        self.tell(Event::Stopped(attempt));
        self.happened(key, false);
        self.tell(Event::EffectOf(key));
        if self.plan.way == Way::Unprotected {
            self.tell(Event::Recorded(key));
        }
    }

    fn counted(&mut self, key: usize, times: u64) {
        let seen = self.counted.insert(key, times).unwrap_or(0);
        (seen..times).for_each(|_| self.happened(key, true));
    }

    fn happened(&mut self, key: usize, commits: bool) {
        let payload = 0;
        self.tell(Event::Effect {
            key,
            payload,
            commits,
        });
    }

    /// Code that outlives its invocation goes on. In a frozen process, it goes on after the thaw.
    fn is_closed(&mut self, attempt: Attempt, close: Close) {
        let Attempt { key, number } = attempt;
        let outlives = self.book.orders[key].outlives
            && matches!(close, Close::Returned | Close::TimedOut | Close::AnswerLost);
        let is_frozen = self.frozen.get(&number) == Some(&None);
        if !is_frozen {
            self.frozen.remove(&number);
        }
        if !outlives && !is_frozen {
            self.tell(Event::Stopped(attempt));
        }
        self.closed.insert(number);
        if matches!(close, Close::Deleted | Close::DeletedLate) {
            self.tell(Event::Acknowledged(key));
        }
    }
}
