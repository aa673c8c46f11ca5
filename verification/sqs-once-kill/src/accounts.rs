//! What happened to every order, in the terms of Jepsen's checkers.

#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;

use crate::history::{Book, Close, Note, OrderNotes, What};
use crate::network::TrafficFault;
use crate::plan::Plan;
use crate::report::story;
use verdict::{Verdict, verdict};

/// A window in which an effect may be repeated, because it does not commit with a completion. No library can close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Window {
    #[value(help = "the process was killed before its key was completed")]
    Killed,
    #[value(help = "the timeout came before that, and the process ended, was frozen or lived on")]
    TimedOut,
    #[value(help = "the process ended itself before that, because code could not keep its lease")]
    EndedItself,
    #[value(help = "a process that thawed executed instructions before it looked at the clock")]
    Thawed,
    #[value(help = "the process was frozen before its key was completed")]
    Frozen,
    #[value(help = "the request that completes it, or its answer, was lost or late")]
    Unrecorded,
    #[value(help = "the deadline came before that")]
    Deadline,
}

/// A violation found for an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Wrong {
    /// The order was acknowledged before its effect, never had its effect, or was never acknowledged. Or it cannot be
    /// handled, but is not in the dead-letter queue.
    #[value(help = "acknowledged without its effect, or never done")]
    Lost,
    /// The order was acknowledged although its key was not recorded: its next copy would run again.
    #[value(help = "acknowledged, and its key not completed")]
    Unrecorded,
    /// The ledger received a request for a message that was never delivered, or an order that cannot be handled had an
    /// effect.
    #[value(help = "an effect that nobody asked for")]
    Unexpected,
    /// Its effect happened more than once, outside of every window.
    #[value(help = "an effect more than once, unexplained")]
    Duplicated,
    /// Two handlers ran for it at once.
    #[value(help = "two handlers of one order at once")]
    Concurrent,
    /// The order is in the dead-letter queue but should not be.
    #[value(help = "in the dead-letter queue, and not hopeless")]
    Misplaced,
    /// Its token changed, or its fence did not grow.
    #[value(help = "a token that changed, a fence that did not grow")]
    Unfenced,
    /// Its effect happened before that of an earlier order of its message group.
    #[value(help = "handled before an earlier order of its message group")]
    Disordered,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Accounts {
    pub(crate) plan: Plan,
    pub(crate) took: Duration,
    pub(crate) book: Book,
    /// How many of them cannot be handled.
    pub spoilt: usize,
    pub(crate) sent: usize,
    pub(crate) acknowledged: usize,
    /// The number of effects.
    pub effects: u64,
    /// Orders with an effect.
    pub(crate) done: usize,
    /// Orders that succeeded although a delivery of them was killed, timed out or got no answer.
    pub recovered: usize,
    /// Effects of code that had outlived its invocation.
    pub(crate) outlived: usize,
    pub(crate) windows: BTreeMap<Window, usize>,
    pub(crate) dead_letters: usize,
    pub(crate) closes: BTreeMap<Close, usize>,
    pub(crate) lines: BTreeMap<String, usize>,
    pub(crate) wrong: BTreeMap<Wrong, usize>,
    /// The histories of the first orders with a violation.
    pub(crate) stories: Vec<String>,
}

/// The maximum number of stories.
const STORIES: usize = 5;

impl Accounts {
    /// Whether no order has a violation and no invocation failed for an unknown reason.
    pub fn add_up(&self) -> bool {
        self.wrong.is_empty() && self.book.failures.is_empty()
    }

    /// The number of orders.
    pub fn orders(&self) -> usize {
        self.book.orders.len()
    }

    /// The number of orders with this violation.
    pub fn wrong(&self, wrong: Wrong) -> usize {
        self.wrong.get(&wrong).copied().unwrap_or_default()
    }

    /// How often a process was frozen by a strike or at a timeout.
    pub fn freezes(&self) -> usize {
        self.book.fates.freezes
    }

    /// The number of killed processes.
    pub fn kills(&self) -> usize {
        self.book.fates.killed_at_work + self.book.fates.killed_idle
    }

    fn enter(&mut self, wrong: Wrong, why: &str, order: usize, book: &Book) {
        *self.wrong.entry(wrong).or_default() += 1;
        if self.stories.len() < STORIES {
            self.stories.push(story(order, why, book));
        }
    }
}

/// Checks the notes of a run.
pub(crate) fn account(plan: &Plan, book: Book, took: Duration) -> Accounts {
    let mut accounts = Accounts {
        plan: plan.clone(),
        took,
        ..Accounts::default()
    };
    for delivery in &book.deliveries {
        if let Some(close) = delivery.close {
            *accounts.closes.entry(close).or_default() += 1;
        }
        if let Some((outcome, _)) = &delivery.line {
            *accounts.lines.entry(outcome.to_string()).or_default() += 1;
        }
    }
    for stray in &book.strays {
        *accounts.wrong.entry(Wrong::Unexpected).or_default() += 1;
        accounts.stories.push(format!(
            "the ledger was told of what was never delivered: {stray}"
        ));
    }
    let verdict = verdict(plan, &book);
    for (number, order) in book.orders.iter().enumerate() {
        Audit::new(plan, &book, number, order, &verdict).enter(&mut accounts);
    }
    for (order, wrong, why) in verdict.wrong {
        accounts.enter(wrong, &why, order, &book);
    }
    accounts.book = book;
    accounts
}

/// The check of one order.
struct Audit<'a> {
    plan: &'a Plan,
    book: &'a Book,
    number: usize,
    order: &'a OrderNotes,
    effects: Vec<Effect<'a>>,
    wrong: Vec<(Wrong, &'static str)>,
}

/// How the deliveries of an order ended.
fn closes(order: &OrderNotes) -> impl Iterator<Item = Close> {
    order.notes.iter().filter_map(|note| match note.what {
        What::Closed(close) => Some(close),
        _ => None,
    })
}

#[derive(Clone, Copy)]
struct Effect<'a> {
    /// The index of the note.
    at: usize,
    delivery: usize,
    fence: u64,
    token: &'a str,
    /// Whether its process had just thawed, and another one had begun meanwhile.
    is_of_thawed: bool,
    /// Whether its delivery had ended before, because the handler was cancelled and its code went on.
    is_outlived: bool,
}

impl<'a> Audit<'a> {
    fn new(
        plan: &'a Plan,
        book: &'a Book,
        number: usize,
        order: &'a OrderNotes,
        verdict: &Verdict,
    ) -> Self {
        let (mut effects, mut wrong) = (Vec::new(), Vec::new());
        for (at, note) in order.notes.iter().enumerate() {
            let (Some(delivery), What::Effect { fence, token }) = (note.delivery, &note.what)
            else {
                continue;
            };
            let before = &order.notes[..at];
            let ends =
                |one: &Note| matches!(one.what, What::Closed(_)) && one.delivery == note.delivery;
            let is_recorded = |one: &Note| matches!(one.what, What::Recorded);
            let is_of_thawed = verdict.of_thawed.contains(&(number, at));
            if !is_of_thawed && before.iter().any(is_recorded) {
                let why = "its key was completed, and its effect happened again";
                wrong.push((Wrong::Duplicated, why));
            }
            effects.push(Effect {
                at,
                delivery,
                fence: *fence,
                token,
                is_of_thawed,
                is_outlived: before.iter().any(ends),
            });
        }
        Self {
            plan,
            book,
            number,
            order,
            effects,
            wrong,
        }
    }

    fn blame(&mut self, wrong: Wrong, why: &'static str) {
        self.wrong.push((wrong, why));
    }

    fn enter(mut self, accounts: &mut Accounts) {
        let order = self.order;
        let effects = order.counted.unwrap_or(self.effects.len() as u64);
        accounts.sent += order
            .notes
            .iter()
            .filter(|note| matches!(note.what, What::Sent(_)))
            .count();
        accounts.spoilt += usize::from(order.is_spoilt);
        let is_acknowledged =
            closes(order).any(|close| matches!(close, Close::Deleted | Close::DeletedLate));
        accounts.acknowledged += usize::from(is_acknowledged);
        accounts.effects += effects;
        accounts.done += usize::from(effects > 0);
        let outlived = self.effects.iter().filter(|effect| effect.is_outlived);
        accounts.outlived += outlived.count();
        accounts.dead_letters += order.dead_letters;
        match (order.is_spoilt, effects) {
            (true, 1..) => self.blame(Wrong::Unexpected, "it is hopeless, and has an effect"),
            (false, 0) => self.blame(Wrong::Lost, "its effect never happened"),
            _ => {}
        }
        if order.is_spoilt && order.dead_letters == 0 {
            self.blame(
                Wrong::Lost,
                "it is hopeless, and not in the dead-letter queue",
            );
        }
        if !order.is_spoilt && order.dead_letters > 0 {
            self.blame(Wrong::Misplaced, "it is in the dead-letter queue");
        }
        if !order.is_spoilt && !is_acknowledged {
            self.blame(Wrong::Lost, "none of its messages was acknowledged");
        }
        for window in self.repeats() {
            *accounts.windows.entry(window).or_default() += 1;
        }
        let was_cut_off = closes(order).any(|close| {
            matches!(
                close,
                Close::Killed | Close::TimedOut | Close::EndedItself | Close::AnswerLost
            )
        });
        accounts.recovered += usize::from(was_cut_off && effects > 0 && is_acknowledged);
        for (wrong, why) in self.wrong {
            accounts.enter(wrong, why, self.number, self.book);
        }
    }

    /// The windows that explain the repeated effects.
    fn repeats(&mut self) -> Vec<Window> {
        let (mut windows, mut wrong) = (Vec::new(), Vec::new());
        let thawed = self.effects.iter().filter(|effect| effect.is_of_thawed);
        windows.extend(thawed.map(|_| Window::Thawed));
        let effects = self.effects.iter().filter(|effect| !effect.is_of_thawed);
        let effects: Vec<_> = effects.copied().collect();
        for pair in effects.windows(2) {
            let [first, second] = pair else { continue };
            match self.window(first, second) {
                Ok(window) => windows.push(window),
                Err(why) => wrong.push((Wrong::Duplicated, why)),
            }
            if self.plan.way.claims() && first.fence >= second.fence {
                wrong.push((Wrong::Unfenced, "its fence did not grow"));
            }
            if first.token != second.token {
                wrong.push((Wrong::Unfenced, "its token changed"));
            }
        }
        self.wrong.extend(wrong);
        windows
    }

    /// Why the first effect was not recorded when the second one happened.
    fn window(&self, first: &Effect<'_>, second: &Effect<'_>) -> Result<Window, &'static str> {
        let delivery = &self.book.deliveries[first.delivery];
        let (outcome, reason) = match &delivery.line {
            Some((outcome, reason)) => (Some(&**outcome), reason.as_deref().unwrap_or_default()),
            None => (None, ""),
        };
        if matches!(outcome, Some("processed" | "duplicate")) {
            return Err("its effect was logged as done, and happened again");
        }
        let between = &self.order.notes[first.at..second.at];
        let was_frozen = between
            .iter()
            .any(|note| matches!(note.what, What::Thawed) && note.delivery == Some(first.delivery));
        let was_lost = between.iter().any(|note| match note.what {
            What::TrafficFault { fault, .. } => fault != TrafficFault::Slow,
            _ => false,
        });
        match delivery.close {
            Some(Close::Killed) => Ok(Window::Killed),
            Some(Close::TimedOut) => Ok(Window::TimedOut),
            Some(Close::EndedItself) => Ok(Window::EndedItself),
            Some(Close::Deleted | Close::DeletedLate) => {
                Err("it was acknowledged, and its effect happened again")
            }
            _ if was_lost => Ok(Window::Unrecorded),
            _ if was_frozen => Ok(Window::Frozen),
            _ if first.is_outlived || reason.contains("deadline") => Ok(Window::Deadline),
            _ => Err("its effect happened again, and nothing had gone wrong"),
        }
    }
}
