//! `cargo sqs-once dlq blocks` and `dlq unblock`: message groups that wait behind a dead letter.

use super::{BlocksArgs, UnblockArgs};
use crate::operate::{ItemChange, List, at, distance, fields, keys, row};
use crate::print;
use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use sqs_once::store::{Item, Timestamp};
use sqs_once::unstable::Listing;
use sqs_once::unstable::block::{Block, PREFIX};
use sqs_once_operate::{Change, Keys};

fn of_blocks() -> Listing {
    Listing {
        prefix: PREFIX.to_owned(),
        status: None,
    }
}

pub(super) async fn blocks(args: &BlocksArgs) -> Result<()> {
    let (keys, _) = keys(&args.table).await?;
    let now = Timestamp::now();
    let json = args.format.is_json();
    let list = List {
        json,
        limit: usize::MAX,
        heading: ["waiting", "since", "queue", "group"],
        none: "no message group waits behind a dead letter",
    };
    let listing = of_blocks();
    let print = list.print(&keys, &listing, |(_, item)| {
        let item = item.as_ref().ok()?;
        let block = Block::from_item(item).filter(Block::stands)?;
        Some(match json {
            true => print::json_line(&document(item, now)),
            false => line(&block, now),
        })
    });
    print.await
}

/// Shows the block, asks, and lifts it.
pub(super) async fn unblock(args: &UnblockArgs) -> Result<()> {
    let (keys, place) = keys(&args.table).await?;
    let seen = find(&keys, args).await?;
    let now = Timestamp::now();
    print::note(text(&seen, now).trim_end());
    let change = ItemChange {
        keys: &keys,
        place: &place,
        args: &args.write,
        action: "unblock",
        kind: "block",
        id: &seen.id,
        seen: Some(&seen),
        document: &document,
        text: &text,
    };
    let question =
        "Unblock it? New messages run before those that still wait in the dead-letter queue.";
    let done = |_: &Item| format!("unblocked {}", print::one_line(&args.message_group));
    change.make(question, |_| Change::Unblock, done).await
}

async fn find(keys: &Keys, args: &UnblockArgs) -> Result<Item> {
    let mut found = Vec::new();
    keys.walk(&of_blocks(), |(_, item)| {
        let item = item.map_err(sqs_once_operate::Error::from)?;
        let block = Block::from_item(&item).filter(Block::stands);
        let is_wanted = |block: &Block| {
            let queue = args.source_queue.as_deref().map(super::connect::name);
            block.group == args.message_group
                && queue.is_none_or(|queue| block.queue.ends_with(&format!(":{queue}")))
        };
        if block.as_ref().is_some_and(is_wanted) {
            found.push(item);
        }
        Ok::<_, anyhow::Error>(true)
    })
    .await?;
    match <[Item; 1]>::try_from(found) {
        Ok([item]) => Ok(item),
        Err(found) if found.is_empty() => bail!(
            "no message group `{}` waits behind a dead letter; `dlq blocks` lists those that do",
            args.message_group
        ),
        Err(_) => Err(anyhow!(
            "groups `{}` of several queues wait: pick one with --source-queue",
            args.message_group
        )),
    }
}

fn since(block: &Block) -> Timestamp {
    Timestamp::from_millis(block.since)
}

/// How many messages wait: those with a place that has not ended.
fn waiting(block: &Block) -> u64 {
    block.places - block.ended - block.dropped.len() as u64
}

fn line(block: &Block, now: Timestamp) -> String {
    let queue = super::connect::name(&block.queue);
    let since = distance(since(block), now);
    row([
        &waiting(block).to_string(),
        &since,
        &queue,
        &print::one_line(&block.group),
    ])
}

fn text(item: &Item, now: Timestamp) -> String {
    let Some(block) = Block::from_item(item) else {
        return "an item that no version of this library writes".to_owned();
    };
    let known = [
        ("group", Some(block.group.clone())),
        ("queue", Some(block.queue.clone())),
        ("since", Some(at(since(&block), now))),
        ("waiting", Some(waiting(&block).to_string())),
        ("ended", Some(block.ended.to_string())),
    ];
    fields(9, known)
}

fn document(item: &Item, _: Timestamp) -> Value {
    let block = Block::from_item(item);
    block.map_or(Value::Null, |block| {
        json!({
            "group": block.group, "queue": block.queue, "since": crate::operate::moment(since(&block)),
            "waiting": waiting(&block), "ended": block.ended,
        })
    })
}
