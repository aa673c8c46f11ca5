//! `cargo sqs-once dlq redrive`.

use super::interrupt::Interrupt;
use super::{Error, RedriveArgs, connect};
use crate::confirm::confirm;
use crate::operate::has_table;
use crate::print;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sqs_once_operate::{DeadLetter, Fate, Standing};

pub(super) async fn redrive(
    args: RedriveArgs,
    interrupt: &Interrupt,
) -> Result<(), crate::error::Error> {
    if !args.even_completed && !has_table(&args.queue.table) {
        return Err(Error::NoTable.into());
    }
    let selection = connect::selection(&args.selection, &args.queue)?;
    let queue = connect::queue(&args.queue).await?;
    let to = match &args.to {
        Some(to) => queue.other(to).await,
        None => queue.source().await,
    };
    let to = to.map_err(Error::from)?;
    let (messages, _) = queue.count().await.map_err(Error::from)?;
    if args.selection.all {
        let question = format!("Send about {messages} messages of {} to {to}?", queue.url());
        tokio::select! {
            answer = confirm(&question, args.yes) => answer.map_err(Error::from)?,
            () = interrupt.wait() => return Err(crate::error::Error::Interrupted),
        }
    }
    let bar = bar(messages);
    let (mut printed, mut unchecked) = (Ok(()), 0_usize);
    let each = |letter: &DeadLetter, fate: Fate| {
        bar.inc(1);
        let is_unknown = letter.standing == Standing::UnknownKey;
        unchecked += usize::from(is_unknown && fate == Fate::Redriven && !args.even_completed);
        if args.json && printed.is_ok() {
            let line =
                json!({"id": letter.id(), "state": letter.standing.name(), "fate": name(fate)});
            printed = print::result(print::json_line(&line).as_bytes());
        }
    };
    let stop = || interrupt.is_here();
    let run = queue.redrive(&to, &selection, args.even_completed, &stop, each);
    let (tally, ended) = run.await;
    bar.finish_and_clear();

    let told = if args.json {
        print::json_line(&json!({
            "to": to, "seen": tally.seen, "redriven": tally.redriven, "unchecked": unchecked,
            "completed": tally.refused, "behind": tally.behind, "came_back": tally.came_back,
        }))
    } else {
        let messages = if tally.redriven == 1 {
            "message"
        } else {
            "messages"
        };
        format!("sent {} {messages} to {to}", tally.redriven)
    };
    print::result(told.as_bytes())?;
    if unchecked > 0 {
        print::note(&format!(
            "of {unchecked} of them the key is not known, and so not whether they are completed: see --key-from"
        ));
    }
    printed?;
    ended.map_err(Error::from)?;
    if tally.stopped {
        return Err(crate::error::Error::Interrupted);
    }
    if !tally.missing.is_empty() {
        return Err(Error::Missing(tally.missing.into_iter().collect()).into());
    }
    if tally.seen == 0 {
        connect::note_in_flight(&queue).await?;
    }
    let (completed, behind, came_back) = (tally.refused, tally.behind, tally.came_back);
    if completed + behind + came_back > 0 {
        let reasons = [
            reason(
                completed,
                "because their effect is done: --even-completed sends them all the same, `drop` deletes them",
            ),
            reason(
                behind,
                "because one before them in their message group does",
            ),
            reason(
                came_back,
                "because they were sent, failed again and came back",
            ),
        ];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        return Err(Error::Stay(reasons.join("; ")).into());
    }
    Ok(())
}

fn reason(messages: usize, why: &str) -> Option<String> {
    match messages {
        0 => None,
        1 => Some(format!("1 message stays, {why}")),
        _ => Some(format!("{messages} messages stay, {why}")),
    }
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
