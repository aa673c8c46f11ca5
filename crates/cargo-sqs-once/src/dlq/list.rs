//! `cargo sqs-once dlq list` and `dlq show`.

use super::interrupt::Interrupt;
use super::{ListArgs, ShowArgs, connect, missing, shown};
use crate::error::INTERRUPTED;
use crate::print;
use anyhow::{Result, ensure};
use sqs_once::time::{Clock, SystemClock};
use sqs_once_operate::{DeadLetter, Selection};

pub(super) async fn list(args: ListArgs, interrupt: &Interrupt) -> Result<()> {
    let selection = Selection {
        standings: connect::standings(&args.state, &args.queue)?,
        ..Selection::default()
    };
    let queue = connect::queue(&args.queue).await?;
    let now = SystemClock.now();
    let (mut listed, mut printed) = (0, Ok(true));
    let each = |letter: &DeadLetter| {
        if listed == args.limit.get() {
            return false;
        }
        if listed == 0 && !args.json {
            print::note(&shown::heading());
        }
        listed += 1;
        printed = print::one_result(match args.json {
            true => print::json_line(&shown::document(letter)),
            false => shown::line(letter, now),
        });
        matches!(printed, Ok(true))
    };
    let stop = || interrupt.is_here();
    let tally = queue.look(&selection, &stop, each).await?;
    if !printed? {
        return Ok(());
    }
    ensure!(!interrupt.is_here(), INTERRUPTED);
    match (tally.stopped, listed) {
        (true, _) => print::note(&format!("there are more: these are {listed}")),
        (false, 0) => {
            print::note("no such messages");
            connect::note_in_flight(&queue).await?;
        }
        (false, _) => connect::note_behind(&queue, tally.seen).await?,
    }
    Ok(())
}

pub(super) async fn show(args: ShowArgs, interrupt: &Interrupt) -> Result<()> {
    let queue = connect::queue(&args.queue).await?;
    let selection = Selection {
        ids: [args.id].into(),
        ..Selection::default()
    };
    let mut found = None;
    let each = |letter: &DeadLetter| {
        found = Some(letter.clone());
        false
    };
    let stop = || interrupt.is_here();
    queue.look(&selection, &stop, each).await?;
    ensure!(!interrupt.is_here(), INTERRUPTED);
    let letter = found.ok_or_else(|| missing(&selection.ids))?;
    match args.json {
        true => print::json(&shown::document(&letter)),
        false => print::result(shown::text(&letter, SystemClock.now()).trim_end()),
    }
}
