//! `cargo sqs-once dlq redrive`.

use super::{RedriveArgs, connect, missing, shown};
use crate::confirm::ask;
use crate::error::INTERRUPTED;
use crate::interrupt::Interrupt;
use crate::operate::{Audit, table};
use crate::print::{self, one_line};
use anyhow::{Error, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sqs_once_operate::{DeadLetter, Fate, Standing};
use std::collections::BTreeSet;

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
        (None, []) => queue.source().await?,
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
    let mut elsewhere = BTreeSet::new();
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
    if let Err(error) = &ended {
        audit.failed(error);
    }

    print::result(match args.change.write.format.is_json() {
        true => print::json_line(&json!({
            "to": to, "seen": tally.seen, "redriven": tally.redriven, "unchecked": unchecked,
            "completed": tally.refused, "behind": tally.behind, "came_back": tally.came_back,
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
        (tally.behind, "an earlier message of their group stays"),
        (tally.came_back, "they failed again after they were sent"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0);
    let reasons = reasons.map(|(count, why)| {
        let messages = print::counted(*count as u64, "message stays", "messages stay");
        format!("{messages}, because {why}")
    });
    let reasons: Vec<String> = reasons.collect();
    ensure!(reasons.is_empty(), reasons.join("; "));
    Ok(())
}

fn name(fate: Fate) -> &'static str {
    match fate {
        Fate::NotSelected => "stays",
        Fate::Refused => "completed",
        Fate::Behind => "behind",
        Fate::CameBack => "came-back",
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
