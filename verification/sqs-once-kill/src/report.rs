//! The results in Markdown, and the history of an order.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use clap::ValueEnum;

use crate::accounts::{Accounts, Window, Wrong};
use crate::history::{self, Book, Fates, What};
use crate::plan::{Way, name};

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
        let row = |f: &mut fmt::Formatter<'_>, name: &str, count: usize, note: &str| {
            writeln!(f, "| {name} | {count} | {note} |")
        };
        let wrong = |f: &mut fmt::Formatter<'_>, of: &[Wrong]| {
            of.iter().try_for_each(|wrong| {
                let name = format!("**{}**", name(wrong));
                row(f, &name, self.wrong(*wrong), &help(wrong))
            })
        };
        let note = format!(
            "{} messages; {} orders are hopeless",
            self.sent, self.spoilt
        );
        row(f, "attempted", self.orders(), &note)?;
        let note = "at least one of its messages deleted from the queue";
        row(f, "acknowledged", self.acknowledged, note)?;
        row(f, "done", self.done, &format!("{} effects", self.effects))?;
        let always = [
            Wrong::Lost,
            Wrong::Unrecorded,
            Wrong::Unexpected,
            Wrong::Duplicated,
        ];
        wrong(f, &always)?;
        if plan.way != Way::Transactional {
            for window in Window::value_variants() {
                let count = self.windows.get(window).copied().unwrap_or_default();
                row(f, "repeated", count, &help(window))?;
            }
            wrong(f, &[Wrong::Concurrent, Wrong::Unfenced])?;
        }
        if plan.way == Way::Fifo {
            wrong(f, &[Wrong::Disordered])?;
        }
        let note = "done though a delivery was killed, timed out or went unanswered";
        row(f, "recovered", self.recovered, note)?;
        let note = format!(
            "{} messages, of hopeless orders; {} redriven on the way",
            self.dead_letters, self.book.redriven
        );
        row(f, "dead letters", self.spoilt, &note)?;
        wrong(f, &[Wrong::Misplaced])?;
        writeln!(f)?;
        self.disturbances(f)?;
        for failure in self.book.failures.iter().take(5) {
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
        let Fates {
            killed_at_work,
            killed_idle,
            freezes,
            ended,
            frozen,
            lived_on,
            ended_themselves,
        } = self.book.fates;
        writeln!(
            f,
            "{} processes; SIGKILL to {} of them, {killed_at_work} with a batch in hand and {killed_idle} idle.",
            self.book.processes.len(),
            self.kills(),
        )?;
        writeln!(
            f,
            "SIGSTOP and SIGCONT {freezes} times. At a timeout, {ended} processes ended, {frozen} were frozen and {lived_on} lived on; \
             {ended_themselves} ended themselves. {} effects of code that outlived its invocation.",
            self.outlived,
        )?;
        list(f, "Deliveries", &self.closes, name)?;
        list(f, "Outcomes logged", &self.lines, String::clone)?;
        let requests = format!("{} requests", self.book.requests);
        list(f, &requests, &self.book.faults, name)
    }
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    counts: &BTreeMap<T, usize>,
    name: fn(&T) -> String,
) -> fmt::Result {
    let counts = counts.iter();
    let counts: Vec<_> = counts
        .map(|(one, count)| format!("{} {count}", name(one)))
        .collect();
    writeln!(f, "{what}: {}.", counts.join(", "))
}

/// The note on a kind of account.
fn help(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    let help = value.and_then(|value| value.get_help().map(ToString::to_string));
    help.unwrap_or_default()
}

/// The history of an order, with one line per note.
pub(crate) fn story(number: usize, why: &str, book: &Book) -> String {
    let mut story = format!("{}: {why}", history::name(number));
    for note in &book.orders[number].notes {
        let delivery = note.delivery.map(|delivery| &book.deliveries[delivery]);
        let told = delivery.map_or_else(String::new, |delivery| {
            format!(
                "{} (receive {}) in process {}",
                delivery.message_id, delivery.receive_count, delivery.process
            )
        });
        let said = match &note.what {
            What::Sent(message_id) => format!("sent as {message_id}"),
            What::Received => format!("received: {told}"),
            What::Begun { fence } => format!("begun: {told}, fence {fence}"),
            What::Effect { fence, token } => {
                format!("effect: {told}, fence {fence}, token {token}")
            }
            What::Recorded => "its key is completed".to_owned(),
            What::Counted(times) => format!("the table counts {times}"),
            What::Closed(close) => {
                let line = match delivery.and_then(|delivery| delivery.line.as_ref()) {
                    Some((outcome, Some(reason))) => format!("; logged: {outcome}, {reason}"),
                    Some((outcome, None)) => format!("; logged: {outcome}"),
                    None => String::new(),
                };
                format!("{}: {told}{line}", name(close))
            }
            What::Frozen => format!("frozen: {told}"),
            What::Thawed => format!("thawed: {told}"),
            What::Gone => format!("its process is gone: {told}"),
            What::TrafficFault { fault, operation } => format!("{operation}: {}", name(fault)),
        };
        // Writing to a String cannot fail.
        let _ = write!(story, "\n  {:9.3} s  {said}", note.at.as_secs_f64());
    }
    story
}
