//! `cargo sqs-once dlq redrive`.

use super::{RedriveArgs, connect, missing, replay, shown};
use crate::confirm::ask;
use crate::error::INTERRUPTED;
use crate::interrupt::Interrupt;
use crate::operate::{Audit, table};
use crate::print::{self, one_line};
use anyhow::{Error, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sqs_once_operate::{DeadLetter, DeadLetters, Fate, Selection, Standing};
use std::collections::BTreeSet;

const BUS_FAILURES: &str = "they are failure records of an event bus: replay the events";

pub(super) async fn redrive(args: RedriveArgs, interrupt: &Interrupt) -> Result<()> {
    ensure!(
        args.even_completed || table(&args.change.queue.table).is_some(),
        "which table? Give --table, or set SQS_ONCE_TABLE: without it, the command can't tell which messages are completed (--even-completed sends all of them)"
    );
    let mut selection = connect::selection(&args.change)?;
    let (queue, config) = connect::queue(&args.change.queue).await?;
    let queue = queue.restarting(args.restart);
    let audit = Audit::open(&args.change.write, &config).await?;
    let sources: Vec<_> = selection.sources.iter().collect();
    let to = match (&args.to, &sources[..]) {
        (Some(to), _) => queue.other(to).await?,
        (None, [source]) => queue.other(source).await?,
        (None, []) => match queue.source().await {
            Err(none @ sqs_once_operate::Error::Sources { .. }) => {
                only_bus_failures(&queue, &selection, interrupt).await?;
                return Err(none.into());
            }
            source => source?,
        },
        (None, _) => bail!("give one --source-queue, or --to"),
    };
    if args.to.is_none() && selection.sources.is_empty() {
        selection.sources.insert(connect::name(&to));
        selection.unknown_source = true;
    }
    let (messages, _) = queue.count().await?;
    if args.change.selection.all {
        let restart = match args.restart {
            true => ", and start failed executions again",
            false => "",
        };
        let question = format!(
            "Send about {messages} messages of {} to {to}{restart}?",
            queue.url()
        );
        ask(&question, args.change.write.yes, interrupt).await?;
    }
    let bar = bar(messages);
    let (mut printed, mut unchecked) = (Ok(()), 0_usize);
    let (mut elsewhere, mut bus_failures) = (BTreeSet::new(), Vec::new());
    let mut logged = Ok(());
    let before = |letters: &[&DeadLetter]| {
        let line = |letter: &&DeadLetter| {
            let fields = shown::change(letter, queue.url(), Some(&to));
            (letter.id().to_owned(), audit.line("redrive", fields))
        };
        let lines: Vec<_> = letters.iter().map(line).collect();
        logged = audit.announce(lines);
        logged.is_ok()
    };
    let each = |letter: &DeadLetter, fate: Fate| {
        bar.inc(1);
        if fate == Fate::Redriven {
            audit.done(letter.id());
        }
        if fate == Fate::BusFailure {
            bus_failures.extend(letter.bus_failure().cloned());
        }
        if selection.unknown_source && fate == Fate::NotSelected {
            let source = letter
                .source()
                .filter(|source| !selection.sources.contains(*source));
            elsewhere.extend(source.map(one_line));
        }
        let unknown = [Standing::UnknownKey, Standing::NotLookedUp];
        let is_unknown = unknown.contains(&letter.standing);
        unchecked += usize::from(is_unknown && fate == Fate::Redriven && !args.even_completed);
        if args.change.write.format.is_json() && printed.is_ok() {
            let (id, state) = (letter.id(), letter.standing.name());
            printed = print::json(&json!({"id": id, "state": state, "fate": name(fate)}));
        }
    };
    let stop = || interrupt.is_here();
    let run = queue.redrive(&to, &selection, args.even_completed, &stop, before, each);
    let (tally, ended) = run.await;
    bar.finish_and_clear();
    let ended = ended.map_err(Error::from);
    for (id, reason) in &tally.unsendable {
        audit.refused(id, reason);
        print::note(reason);
    }
    if let Err(error) = &ended {
        audit.failed(error);
    }

    print::result(match args.change.write.format.is_json() {
        true => print::json_line(&json!({
            "to": to, "seen": tally.seen, "redriven": tally.redriven, "unchecked": unchecked,
            "completed": tally.refused, "bus_failures": tally.bus_failures, "behind": tally.behind,
            "came_back": tally.came_back, "unsendable": tally.unsendable,
        })),
        false => {
            let messages = print::counted(tally.redriven as u64, "message", "messages");
            format!("sent {messages} to {to}")
        }
    })?;
    if unchecked > 0 {
        print::note(&format!(
            "unknown keys: {unchecked}; these messages may be completed (see --key-from)"
        ));
    }
    if !elsewhere.is_empty() {
        let names: Vec<_> = elsewhere.into_iter().collect();
        print::note(&format!(
            "messages of other queues stay: {}; send them with --source-queue",
            names.join(", ")
        ));
    }
    if !bus_failures.is_empty() {
        replay::note(&bus_failures);
    }
    printed?;
    ended?;
    logged?;
    ensure!(!tally.stopped, INTERRUPTED);
    if !tally.missing.is_empty() {
        return Err(missing(&tally.missing));
    }
    if tally.seen == 0 {
        connect::note_in_flight(&queue).await?;
    }
    let completed = "their effect is done: --even-completed sends them, `drop` deletes them";
    let reasons = [
        (tally.refused, completed),
        (tally.bus_failures, BUS_FAILURES),
        (tally.behind, "an earlier message of their group stays"),
        (tally.came_back, "they failed again after they were sent"),
        (tally.unsendable.len(), "they can't be sent"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0);
    let reasons = reasons.map(|(count, why)| staying(*count, why));
    let reasons: Vec<String> = reasons.collect();
    ensure!(reasons.is_empty(), reasons.join("; "));
    Ok(())
}

fn staying(count: usize, why: &str) -> String {
    let messages = print::counted(count as u64, "message stays", "messages stay");
    format!("{messages}, because {why}")
}

/// Fails if the queue has failure records of an event bus. Their own queue is no consumer's dead-letter queue, and so
/// messages have no queue to return to.
async fn only_bus_failures(
    queue: &DeadLetters,
    selection: &Selection,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut found = Vec::new();
    let stop = || interrupt.is_here();
    let each = |letter: &DeadLetter| {
        found.extend(letter.bus_failure().cloned());
        true
    };
    queue.look(selection, &stop, each).await?;
    ensure!(!interrupt.is_here(), INTERRUPTED);
    if !found.is_empty() {
        replay::note(&found);
        bail!(staying(found.len(), BUS_FAILURES));
    }
    Ok(())
}

fn name(fate: Fate) -> &'static str {
    match fate {
        Fate::NotSelected => "stays",
        Fate::Refused => "completed",
        Fate::BusFailure => "bus-failure",
        Fate::Behind => "behind",
        Fate::CameBack => "came-back",
        Fate::Unsendable => "unsendable",
        Fate::Redriven => "redriven",
    }
}

/// A progress bar, shown only on a terminal.
fn bar(messages: u64) -> ProgressBar {
    let bar = ProgressBar::new(messages);
    match ProgressStyle::with_template("{bar:30} {pos} of about {len}, {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
