//! `cargo sqs-once dlq drop`.

use super::{DropArgs, connect, missing, shown};
use crate::confirm::ask;
use crate::error::INTERRUPTED;
use crate::interrupt::Interrupt;
use crate::operate::Audit;
use crate::print;
use crate::private;
use anyhow::{Context, Error, Result, ensure};
use sqs_once::store::Timestamp;
use sqs_once_operate::{DeadLetter, DeadLetters};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

pub(super) async fn drop(args: DropArgs, interrupt: &Interrupt) -> Result<()> {
    let selection = connect::selection(&args.change)?;
    let (queue, config) = connect::queue(&args.change.queue).await?;
    let audit = Audit::open(&args.change.write, &config).await?;
    let stop = || interrupt.is_here();
    let (letters, tally) = queue.hold(&selection, &stop).await?;
    let sure = match tally.missing.is_empty() {
        true => sure(&args, &queue, &letters, tally.seen, interrupt).await,
        false => Err(missing(&tally.missing)),
    };
    if let Err(error) = sure {
        put_back(&queue, &letters).await;
        return Err(error);
    }
    let (mut printed, mut logged) = (Ok(()), Ok(()));
    let before = |letter: &DeadLetter| {
        let line = audit.line("drop", shown::change(letter, queue.url(), None));
        logged = audit.announce([(letter.id().to_owned(), line)]);
        logged.is_ok()
    };
    let each = |letter: &DeadLetter| {
        audit.done(letter.id());
        if args.change.write.format.is_json() && printed.is_ok() {
            printed = print::json(&shown::document(letter));
        }
    };
    let (dropped, ended) = queue.drop_held(&letters, &stop, before, each).await;
    let ended = ended.map_err(Error::from);
    if let Err(error) = &ended {
        audit.failed(error);
    }
    if !args.change.write.format.is_json() {
        let messages = print::counted(dropped as u64, "message", "messages");
        print::result(format!("dropped {messages}"))?;
    }
    ended?;
    logged?;
    printed?;
    ensure!(dropped == letters.len(), INTERRUPTED);
    ensure!(
        !tally.stopped,
        "receiving took long, and there may be more: run the command again for the rest"
    );
    Ok(())
}

/// Checks all conditions for deleting the messages.
async fn sure(
    args: &DropArgs,
    queue: &DeadLetters,
    letters: &[DeadLetter],
    seen: usize,
    interrupt: &Interrupt,
) -> Result<()> {
    ensure!(!interrupt.is_here(), INTERRUPTED);
    if letters.is_empty() {
        print::note("no such messages");
        return Ok(());
    }
    let now = Timestamp::now();
    print::note(&shown::heading());
    for letter in letters {
        print::note(&shown::line(letter, now));
    }
    connect::note_behind(queue, seen).await?;
    ask(
        &question(letters, queue.url()),
        args.change.write.yes,
        interrupt,
    )
    .await?;
    if let Some(path) = &args.save {
        let unsaved = path.display();
        let unsaved = || format!("the messages can't be saved to {unsaved}: nothing was dropped");
        save(path, letters).with_context(unsaved)?;
    }
    Ok(())
}

/// Formats the question, such as `Drop 3 messages of https://… for good (1 completed, 2 failed)?`.
fn question(letters: &[DeadLetter], queue: &str) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for letter in letters {
        *counts.entry(letter.standing.name()).or_default() += 1;
    }
    let counts = counts.iter().map(|(name, count)| format!("{count} {name}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let messages = print::counted(letters.len() as u64, "message", "messages");
    format!("Drop {messages} of {queue} for good ({counts})?")
}

fn save(path: &Path, letters: &[DeadLetter]) -> io::Result<()> {
    let mut file = private::append(path)?;
    for letter in letters {
        writeln!(file, "{}", print::json_line(&shown::document(letter)))?;
    }
    file.sync_all()
}

/// Releases the messages. If that fails, they return after their visibility timeout.
async fn put_back(queue: &DeadLetters, letters: &[DeadLetter]) {
    if let Err(error) = queue.release(letters).await {
        let minutes = DeadLetters::HOLD.as_secs() / 60;
        print::note(&format!(
            "the messages can't be put back, and are visible in {minutes} minutes: {error}"
        ));
    }
}
