//! `cargo sqs-once dlq list` and `dlq show`.

use super::{ListArgs, ShowArgs, connect, missing, shown};
use crate::error::INTERRUPTED;
use crate::interrupt::Interrupt;
use crate::print::{self, one_line};
use anyhow::{Result, anyhow, ensure};
use sqs_once::store::Timestamp;
use sqs_once_operate::{DeadLetter, DeadLetters, Group, Selection, Standing, Tally};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

const MESSAGES: usize = 100;
const IN_GROUPS: usize = 10_000;
/// How many waiting message groups a note names.
const GROUPS: usize = 10;

/// The messages of a group.
pub(super) struct Members {
    pub(super) count: u64,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
    /// The id and the reason of one message.
    pub(super) example: String,
    pub(super) reason: Option<String>,
    /// The names of the queues that they came from.
    pub(super) sources: BTreeSet<String>,
}

pub(super) async fn list(args: ListArgs, interrupt: &Interrupt) -> Result<()> {
    let selection = Selection {
        standings: connect::standings(&args.state, &args.queue)?,
        ..connect::by_cause(&args.cause)
    };
    let (queue, _) = connect::queue(&args.queue).await?;
    match args.all || !args.cause.group.is_empty() {
        true => messages(&args, &queue, &selection, interrupt).await,
        false => groups(&args, &queue, &selection, interrupt).await,
    }
}

async fn groups(
    args: &ListArgs,
    queue: &DeadLetters,
    selection: &Selection,
    interrupt: &Interrupt,
) -> Result<()> {
    let limit = args.limit.map_or(IN_GROUPS, NonZeroUsize::get);
    let mut groups: BTreeMap<Group, Members> = BTreeMap::new();
    let (mut listed, mut notes) = (0, Notes::default());
    let each = |letter: &DeadLetter| {
        if listed == limit {
            return false;
        }
        listed += 1;
        notes.add(letter);
        let sent = letter.sent_at();
        let members = groups.entry(letter.group()).or_insert_with(|| Members {
            count: 0,
            first: sent,
            last: sent,
            example: letter.id().to_owned(),
            reason: letter.reason().map(str::to_owned),
            sources: BTreeSet::new(),
        });
        members.count += 1;
        members.sources.extend(letter.source().map(str::to_owned));
        members.first = members.first.into_iter().chain(sent).min();
        members.last = members.last.max(sent);
        true
    };
    let stop = || interrupt.is_here();
    let tally = queue.look(selection, &stop, each).await?;
    ensure!(!interrupt.is_here(), INTERRUPTED);
    let now = Timestamp::now();
    let mut groups: Vec<_> = groups.iter().collect();
    groups.sort_by_key(|(_, members)| Reverse(members.count));
    if !groups.is_empty() && !args.format.is_json() {
        print::note(&shown::groups_heading());
    }
    for (group, members) in &groups {
        let line = match args.format.is_json() {
            true => print::json_line(&shown::group_document(group, members)),
            false => shown::group_line(group, members, now),
        };
        if !print::one_result(line)? {
            return Ok(());
        }
    }
    note_rest(queue, &tally, listed).await?;
    if !groups.is_empty() && !args.format.is_json() {
        print::note("--group GROUP lists the messages of a group");
        notes.print();
    }
    Ok(())
}

async fn messages(
    args: &ListArgs,
    queue: &DeadLetters,
    selection: &Selection,
    interrupt: &Interrupt,
) -> Result<()> {
    let limit = args.limit.map_or(MESSAGES, NonZeroUsize::get);
    let now = Timestamp::now();
    let (mut listed, mut printed) = (0, Ok(true));
    let (mut moved, mut not_looked_up) = (None, false);
    let mut notes = Notes::default();
    let each = |letter: &DeadLetter| {
        if listed == limit {
            return false;
        }
        if listed == 0 && !args.format.is_json() {
            print::note(&shown::heading());
        }
        listed += 1;
        if letter.is_moved_by_sqs() && moved.is_none() {
            moved = Some(letter.id().to_owned());
        }
        not_looked_up |= letter.standing == Standing::NotLookedUp;
        notes.add(letter);
        printed = print::one_result(match args.format.is_json() {
            true => print::json_line(&shown::document(letter)),
            false => shown::line(letter, now),
        });
        matches!(printed, Ok(true))
    };
    let stop = || interrupt.is_here();
    let tally = queue.look(selection, &stop, each).await?;
    if !printed? {
        return Ok(());
    }
    ensure!(!interrupt.is_here(), INTERRUPTED);
    note_rest(queue, &tally, listed).await?;
    if args.format.is_json() {
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
    notes.print();
    Ok(())
}

/// What people need to know about the listed messages.
#[derive(Default)]
struct Notes {
    of_bus: bool,
    /// The message groups that wait for these messages.
    waiting: BTreeSet<String>,
}

impl Notes {
    fn add(&mut self, letter: &DeadLetter) {
        self.of_bus |= letter.bus_failure().is_some();
        self.waiting.extend(letter.waiting_group().map(one_line));
    }

    fn print(&self) {
        if self.of_bus {
            print::note(
                "`not delivered` is the report of an event bus, and no event: `dlq redrive` prints how to replay the events",
            );
        }
        if !self.waiting.is_empty() {
            let named: Vec<_> = self
                .waiting
                .iter()
                .take(GROUPS)
                .map(String::as_str)
                .collect();
            let more = if self.waiting.len() > GROUPS {
                ", …"
            } else {
                ""
            };
            print::note(&format!(
                "message groups that wait for these messages: {}{more}; `dlq blocks` lists all that are still blocked",
                named.join(", ")
            ));
        }
    }
}

/// Notes the messages that were not looked at.
async fn note_rest(queue: &DeadLetters, tally: &Tally, listed: usize) -> Result<()> {
    match (tally.stopped, listed) {
        (true, _) => print::note(&format!("there are more: these are {listed}")),
        (false, 0) => {
            print::note("no such messages");
            connect::note_in_flight(queue).await?;
        }
        (false, _) => connect::note_behind(queue, tally.seen).await?,
    }
    Ok(())
}

pub(super) async fn show(args: ShowArgs, interrupt: &Interrupt) -> Result<()> {
    let (queue, _) = connect::queue(&args.queue).await?;
    let selection = Selection {
        ids: args.id.into_iter().collect(),
        ..connect::by_cause(&args.cause)
    };
    let mut found = None;
    let each = |letter: &DeadLetter| {
        found = Some(letter.clone());
        false
    };
    let stop = || interrupt.is_here();
    queue.look(&selection, &stop, each).await?;
    ensure!(!interrupt.is_here(), INTERRUPTED);
    let letter = found.ok_or_else(|| match selection.ids.is_empty() {
        true => anyhow!("no such messages"),
        false => missing(&selection.ids),
    })?;
    match args.format.is_json() {
        true => print::json(&shown::document(&letter)),
        false => print::result(shown::text(&letter, Timestamp::now()).trim_end()),
    }
}
