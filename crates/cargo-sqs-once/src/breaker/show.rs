//! `cargo sqs-once breaker show`.

use super::{ShowArgs, shown};
use crate::operate::keys;
use crate::print;
use anyhow::Result;
use serde_json::json;
use sqs_once::store::dynamodb::Listing;
use sqs_once::time::{Clock, SystemClock};
use sqs_once_operate::{BreakerName, Keys};

pub(super) async fn show(args: &ShowArgs) -> Result<()> {
    let name = args.name.as_deref().map(BreakerName::new).transpose()?;
    let (keys, _) = keys(&args.table).await?;
    let Some(name) = name else {
        return list(&keys, args.json).await;
    };
    let items = keys.read(&[name.id()]).await?;
    let (item, now) = (items.first(), SystemClock.now());
    match args.json {
        true => print::json(&shown::document(&name, item, now)),
        false => print::result(shown::text(&name, item, now).trim_end()),
    }
}

async fn list(keys: &Keys, as_json: bool) -> Result<()> {
    let now = SystemClock.now();
    let listing = Listing {
        prefix: BreakerName::PREFIX.to_owned(),
        status: None,
    };
    let mut listed = 0;
    let mut from = None;
    loop {
        let (items, next) = keys.page(&listing, from).await?;
        for (id, item) in &items {
            // A consumer may have the namespace `breaker`, and keys in it.
            let Some(name) = BreakerName::from_id(id.as_str()) else {
                continue;
            };
            if listed == 0 && !as_json {
                print::note(&shown::heading());
            }
            listed += 1;
            let line = match (item, as_json) {
                (Ok(item), true) => print::json_line(&shown::document(&name, Some(item), now)),
                (Ok(item), false) => shown::line(&name, Some(item), now),
                (Err(error), true) => print::json_line(&json!({
                    "name": name.to_string(), "state": "unreadable", "error": error.to_string(),
                })),
                (Err(_), false) => shown::unreadable(&name),
            };
            if !print::one_result(line)? {
                // Stop here: every further page would cost read units.
                return Ok(());
            }
        }
        from = next;
        if from.is_none() {
            break;
        }
    }
    if listed == 0 {
        print::note("no breaker was ever opened in this table, or its item has expired");
    }
    Ok(())
}
