//! Shows, opens and closes breakers.

use super::{BreakerArgs, BreakerCommand, ChangeArgs, ShowArgs, shown};
use crate::operate::{ItemChange, List, keys, moment};
use crate::print;
use anyhow::Result;
use serde_json::json;
use sqs_once::store::{Item, Timestamp};
use sqs_once::unstable::Listing;
use sqs_once::unstable::breaker::closed_until;
use sqs_once_operate::{BreakerName, BreakerState, Change, Keys};
use std::time::Duration;

pub(crate) async fn breaker(args: BreakerArgs) -> Result<()> {
    match args.command {
        BreakerCommand::Show(args) => show(&args).await,
        BreakerCommand::Open(args) => change(&args.change, Some(args.duration)).await,
        BreakerCommand::Close(args) => change(&args, None).await,
    }
}

async fn show(args: &ShowArgs) -> Result<()> {
    let name = args.name.as_deref().map(BreakerName::new).transpose()?;
    let (keys, _) = keys(&args.table).await?;
    let Some(name) = name else {
        return list(&keys, args.format.is_json()).await;
    };
    let items = keys.read(&[name.id()]).await?;
    let (item, now) = (items.first(), Timestamp::now());
    match args.format.is_json() {
        true => print::json(&shown::document(&name, item, now)),
        false => print::result(shown::text(&name, item, now).trim_end()),
    }
}

async fn list(keys: &Keys, json: bool) -> Result<()> {
    let now = Timestamp::now();
    let listing = Listing {
        prefix: BreakerName::PREFIX.to_owned(),
        status: None,
    };
    let list = List {
        json,
        limit: usize::MAX,
        heading: ["state", "since", "until", "dependency"],
        none: "no breaker was ever opened in this table, or its item has expired",
    };
    let print = list.print(keys, &listing, |(id, item)| {
        // A consumer may have the namespace `breaker`, and keys in it.
        let name = BreakerName::from_id(id.as_str())?;
        Some(match (item, json) {
            (Ok(item), true) => print::json_line(&shown::document(&name, Some(item), now)),
            (Err(error), true) => print::json_line(&json!({
                "name": name.to_string(), "state": "unreadable", "error": error.to_string(),
            })),
            (item, false) => shown::line(&name, item.as_ref().ok(), now),
        })
    });
    print.await
}

/// Shows the breaker, asks, opens or closes it, and reports the change.
async fn change(args: &ChangeArgs, open_for: Option<Duration>) -> Result<()> {
    let name = BreakerName::new(&args.name)?;
    let id = name.id();
    let (keys, place) = keys(&args.table).await?;
    let seen = keys.read(std::slice::from_ref(&id)).await?.pop();
    let now = Timestamp::now();
    print::note(shown::text(&name, seen.as_ref(), now).trim_end());
    let is_closed = BreakerState::from_item(seen.as_ref(), now) == BreakerState::Closed;
    if is_closed && open_for.is_none() {
        print::note("nothing had to be changed");
        return Ok(());
    }
    let (action, question) = match open_for {
        None => (
            "close",
            format!("Close {name}? Its messages are handled again."),
        ),
        Some(duration) => {
            let duration = humantime::format_duration(duration);
            let until = "Until then, its messages return to the queue.";
            ("open", format!("Open {name} for {duration}? {until}"))
        }
    };
    let change = ItemChange {
        keys: &keys,
        place: &place,
        args: &args.write,
        action,
        kind: "breaker",
        id: &id,
        seen: seen.as_ref(),
        document: &|item, at| shown::document(&name, Some(item), at),
        text: &|item, at| shown::text(&name, Some(item), at),
    };
    let done = |item: &Item| match (open_for, item.lease_until) {
        (Some(_), Some(until)) => format!("opened {name} until {}", moment(until)),
        _ => format!("closed {name}"),
    };
    let write = |at| match open_for {
        None => Change::Complete {
            expiration: closed_until(at),
        },
        Some(duration) => Change::Open {
            until: at + duration,
        },
    };
    change.make(&question, write, done).await
}
