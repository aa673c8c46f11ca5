//! `cargo sqs-once dlq list` and `dlq show`.

use super::interrupt::Interrupt;
use super::{Error, ListArgs, ShowArgs, connect, shown};
use crate::print;
use sqs_once::time::{Clock, SystemClock};
use sqs_once_operate::{DeadLetter, Selection};

pub(super) async fn list(args: ListArgs, interrupt: &Interrupt) -> Result<(), crate::error::Error> {
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
        let line = if args.json {
            print::json_line(&shown::document(letter))
        } else {
            shown::line(letter, now)
        };
        printed = print::one_result(line.as_bytes());
        matches!(printed, Ok(true))
    };
    let tally = queue.look(&selection, &|| interrupt.is_here(), each).await;
    let tally = tally.map_err(Error::from)?;
    if !printed? {
        return Ok(());
    }
    if interrupt.is_here() {
        return Err(crate::error::Error::Interrupted);
    }
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

pub(super) async fn show(args: ShowArgs, interrupt: &Interrupt) -> Result<(), crate::error::Error> {
    let queue = connect::queue(&args.queue).await?;
    let selection = Selection {
        ids: [args.id.clone()].into(),
        ..Selection::default()
    };
    let mut found = None;
    let each = |letter: &DeadLetter| {
        found = Some(letter.clone());
        false
    };
    let looked = queue.look(&selection, &|| interrupt.is_here(), each).await;
    looked.map_err(Error::from)?;
    if interrupt.is_here() {
        return Err(crate::error::Error::Interrupted);
    }
    let letter = found.ok_or_else(|| Error::Missing(vec![args.id]))?;
    if args.json {
        return print::result(print::json_line(&shown::document(&letter)).as_bytes());
    }
    print::result(
        shown::text(&letter, SystemClock.now())
            .trim_end()
            .as_bytes(),
    )
}
