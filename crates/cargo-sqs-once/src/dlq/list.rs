//! `cargo sqs-once dlq list` and `dlq show`.

use super::{ListArgs, ShowArgs, connect, missing, shown};
use crate::error::INTERRUPTED;
use crate::interrupt::Interrupt;
use crate::print;
use anyhow::{Result, ensure};
use sqs_once::time::{Clock, SystemClock};
use sqs_once_operate::{DeadLetter, Selection, Standing};

pub(super) async fn list(args: ListArgs, interrupt: &Interrupt) -> Result<()> {
    let selection = Selection {
        standings: connect::standings(&args.state, &args.queue)?,
        ..Selection::default()
    };
    let (queue, _) = connect::queue(&args.queue).await?;
    let now = SystemClock.now();
    let (mut listed, mut printed) = (0, Ok(true));
    let (mut moved, mut not_looked_up) = (None, false);
    let each = |letter: &DeadLetter| {
        if listed == args.limit.get() {
            return false;
        }
        if listed == 0 && !args.json {
            print::note(&shown::heading());
        }
        listed += 1;
        if letter.is_moved_by_sqs() && moved.is_none() {
            moved = Some(letter.id().to_owned());
        }
        not_looked_up |= letter.standing == Standing::NotLookedUp;
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
    if args.json {
        return Ok(());
    }
    if not_looked_up {
        print::note("--table TABLE shows which of these effects are done");
    }
    if let Some(id) = moved {
        print::note(&format!(
            "SQS attaches no reason. The function's log has it, in CloudWatch Logs Insights:\n  {}",
            shown::query(&id)
        ));
    }
    Ok(())
}

pub(super) async fn show(args: ShowArgs, interrupt: &Interrupt) -> Result<()> {
    let (queue, _) = connect::queue(&args.queue).await?;
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
