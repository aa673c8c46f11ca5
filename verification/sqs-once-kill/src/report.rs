//! The results in Markdown, and the history of an order.

use std::fmt::{self, Write};

use crate::accounts::{Accounts, Window, Wrong};
use crate::history::{Book, Close, What, name};
use crate::plan::Way;

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(f, "## {}", plan.way)?;
        writeln!(f)?;
        writeln!(
            f,
            "Seed {}, {} messages, {} environments, {} of 1000 requests disturbed; {:.0} s, {:.0} messages/s.",
            plan.seed,
            plan.messages,
            plan.environments,
            plan.faults_in_thousand,
            self.took.as_secs_f64(),
            self.sent as f64 / self.took.as_secs_f64(),
        )?;
        writeln!(f)?;
        writeln!(f, "| account | orders | |")?;
        writeln!(f, "|---|---:|---|")?;
        let mut row =
            |name: &str, count: usize, note: &str| writeln!(f, "| {name} | {count} | {note} |");
        let note = format!(
            "{} messages; {} orders are hopeless",
            self.sent, self.spoilt
        );
        row("attempted", self.orders, &note)?;
        row(
            "acknowledged",
            self.acknowledged,
            "at least one of its messages deleted from the queue",
        )?;
        row("done", self.done, &format!("{} effects", self.effects))?;
        row(
            "**lost**",
            self.wrong(Wrong::Lost),
            "acknowledged without its effect, or never done",
        )?;
        row(
            "**unrecorded**",
            self.wrong(Wrong::Unrecorded),
            "acknowledged, and its key not on record",
        )?;
        row(
            "**unexpected**",
            self.wrong(Wrong::Unexpected),
            "an effect that nobody asked for",
        )?;
        row(
            "**duplicated**",
            self.wrong(Wrong::Duplicated),
            "an effect more than once, unexplained",
        )?;
        if plan.way != Way::Transactional {
            for (window, what) in [
                (
                    Window::Killed,
                    "the process was killed before the effect was on record",
                ),
                (
                    Window::TimedOut,
                    "the process was killed at its timeout before that",
                ),
                (
                    Window::Unrecorded,
                    "the request that records it, or its answer, was lost or late",
                ),
                (Window::Deadline, "the deadline came before that"),
            ] {
                let count = self.windows.get(&window).copied().unwrap_or_default();
                row("repeated", count, what)?;
            }
            row(
                "**concurrent**",
                self.wrong(Wrong::Concurrent),
                "two handlers of one order at once",
            )?;
            row(
                "**unfenced**",
                self.wrong(Wrong::Unfenced),
                "a token that changed, a fence that did not grow",
            )?;
        }
        if plan.way == Way::Fifo {
            row(
                "**disordered**",
                self.wrong(Wrong::Disordered),
                "handled before an earlier order of its message group",
            )?;
        }
        row(
            "recovered",
            self.recovered,
            "done though a delivery was killed, timed out or went unanswered",
        )?;
        let note = format!(
            "{} messages, of hopeless orders; {} redriven on the way",
            self.dead_letters, self.redriven
        );
        row("dead letters", self.spoilt, &note)?;
        row(
            "**misplaced**",
            self.wrong(Wrong::Misplaced),
            "in the dead-letter queue, and not hopeless",
        )?;
        writeln!(f)?;
        self.disturbances(f)?;
        for failure in self.failures.iter().take(5) {
            writeln!(f, "\nan invocation failed by itself: {failure}")?;
        }
        for story in &self.stories {
            writeln!(f, "\n{story}")?;
        }
        let verdict = match self.add_up() {
            true => "Everything adds up.",
            false => "IT DOES NOT ADD UP.",
        };
        writeln!(f, "\n{verdict}")
    }
}

impl Accounts {
    fn disturbances(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at_work, idle) = self.kills;
        writeln!(
            f,
            "{} processes; SIGKILL to {} of them, {at_work} with a batch in hand and {idle} idle.",
            self.processes,
            self.kills(),
        )?;
        let list = |f: &mut fmt::Formatter<'_>, what: &str, counts: Vec<(&str, usize)>| {
            let counts: Vec<_> = counts
                .iter()
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            writeln!(f, "{what}: {}.", counts.join(", "))
        };
        let closes = self
            .closes
            .iter()
            .map(|(close, count)| (in_words(*close), *count));
        list(f, "Deliveries", closes.collect())?;
        let lines = self
            .lines
            .iter()
            .map(|(outcome, count)| (outcome.as_str(), *count));
        list(f, "Outcomes logged", lines.collect())?;
        let faults = self
            .faults
            .iter()
            .map(|(fault, count)| (fault.in_words(), *count));
        list(f, &format!("{} requests", self.requests), faults.collect())
    }
}

fn in_words(close: Close) -> &'static str {
    match close {
        Close::Deleted => "acknowledged",
        Close::DeletedLate => "acknowledged too late",
        Close::Returned => "returned",
        Close::AnswerLost => "answer lost",
        Close::Killed => "killed",
        Close::TimedOut => "timed out",
        Close::Failed => "failed",
    }
}

/// The history of an order, with one line per note.
pub(crate) fn story(number: usize, why: &str, book: &Book) -> String {
    let mut story = format!("{}: {why}", name(number));
    let delivery = |at: usize| {
        let delivery = &book.deliveries[at];
        format!(
            "{} (receive {}) in process {}",
            delivery.message_id, delivery.receive_count, delivery.process
        )
    };
    for note in &book.orders[number].notes {
        let said = match &note.what {
            What::Sent { message_id } => format!("sent as {message_id}"),
            What::Received { delivery: at } => format!("received: {}", delivery(*at)),
            What::Begun {
                delivery: at,
                fence,
            } => format!("begun: {}, fence {fence}", delivery(*at)),
            What::Effect {
                delivery: at,
                fence,
                token,
            } => {
                format!("effect: {}, fence {fence}, token {token}", delivery(*at))
            }
            What::Recorded => "its key is on record".to_owned(),
            What::Counted { times } => format!("the table counts {times}"),
            What::Closed {
                delivery: at,
                close,
            } => {
                let line = match &book.deliveries[*at].line {
                    Some((outcome, Some(reason))) => format!("; logged: {outcome}, {reason}"),
                    Some((outcome, None)) => format!("; logged: {outcome}"),
                    None => String::new(),
                };
                format!("{}: {}{line}", in_words(*close), delivery(*at))
            }
            What::Fault { fault, operation } => format!("{operation}: {}", fault.in_words()),
        };
        // Writing to a String cannot fail.
        let _ = write!(story, "\n  {:9.3} s  {said}", note.at.as_secs_f64());
    }
    story
}
