//! `cargo sqs-once key forget` and `key complete`.

use super::{ChangeArgs, CompleteArgs, NOT_FOUND, key_name, shown};
use crate::confirm::confirm;
use crate::operate::{Audit, ItemChange, keys, moment, namespace};
use crate::print;
use anyhow::{Context, Error, Result, anyhow, bail};
use sqs_once::key::{ItemId, Namespace};
use sqs_once::random::{OsRandom, Random};
use sqs_once::store::{Item, Owner};
use sqs_once::time::{Clock, SystemClock};
use sqs_once_operate::{Change, Found, KeyName, State};

/// Shows the key, asks, forgets or completes it, and reports the change.
pub(super) async fn change(args: &ChangeArgs, complete: Option<&CompleteArgs>) -> Result<()> {
    let name = key_name(&args.name)?;
    let namespace = namespace(&args.consumer)?;
    let (keys, place) = keys(&args.table).await?;
    let found = keys.find(&name, namespace.as_ref()).await?;
    let (id, seen) = one(found, complete, &name, namespace)?;
    let now = SystemClock.now();
    match &seen {
        Some(item) => print::note(shown::text(item, false, now).trim_end()),
        None => print::note("the table does not have this key"),
    }
    if let Some(item) = &seen
        && State::from_item(item, now) == State::InProgress
        && !args.even_in_progress
    {
        let until = item.lease_until.or(item.expiration);
        let until = until.map_or_else(|| "an unknown time".to_owned(), moment);
        bail!(
            "a worker is processing this key until {until}: wait until then, or give \
             --even-in-progress if the effect may happen twice"
        );
    }
    let mut audit = Audit::open(&args.audit, &place.config).await?;
    let question = match complete {
        None => "Forget it? The effect happens again with its next message.".to_owned(),
        Some(complete) => format!(
            "Complete it? For {} its messages will have no effect.",
            humantime::format_duration(complete.retention)
        ),
    };
    let question = format!("{}: {question}", audit.place(&place.table));
    confirm(&question, args.yes).await?;

    // The answer may have taken a while.
    let at = SystemClock.now();
    let (action, change) = match complete {
        None => ("forget", Change::Forget),
        Some(complete) => {
            let expiration = at + complete.retention;
            ("complete", Change::Complete { expiration })
        }
    };
    let owner = Owner::from_bits(OsRandom.bits());
    let after = change.write(&id, seen.as_ref(), owner, at);
    let after = after.context(NOT_FOUND)?;
    let change = ItemChange {
        keys: &keys,
        table: &place.table,
        action,
        kind: "key",
        seen: seen.as_ref(),
        document: &|item| shown::document(item, false, at),
        text: &|item| shown::text(item, false, at),
    };
    let line = change.write(&after, &mut audit).await?;
    if args.json {
        return print::result(line);
    }
    let id = print::one_line(id.as_str());
    print::result(match (complete, after.expiration) {
        (None, _) => format!(
            "forgot {id}: its next message runs, as a first attempt with the idempotency token of earlier ones"
        ),
        (Some(_), None) => format!("completed {id} for ever"),
        (Some(_), Some(expiration)) => format!("completed {id} until {}", moment(expiration)),
    })
}

/// Returns the id of the one matching key, and its item if it exists.
fn one(
    mut found: Found,
    complete: Option<&CompleteArgs>,
    name: &KeyName,
    namespace: Option<Namespace>,
) -> Result<(ItemId, Option<Item>)> {
    if let Some(item) = found.items.pop() {
        return match found.items.len() {
            0 => Ok((item.id.clone(), Some(item))),
            others => Err(ambiguous(others + 1)),
        };
    }
    let Some(complete) = complete else {
        bail!(NOT_FOUND);
    };
    let keys = name.keys().map_err(sqs_once_operate::Error::from)?;
    match (keys.as_slice(), namespace) {
        ([key], Some(namespace)) => {
            let namespace = namespace.readable_keys(complete.readable_keys);
            Ok((namespace.item_id(key), None))
        }
        ([], _) | (_, None) => bail!(NOT_FOUND),
        (several, _) => Err(ambiguous(several.len())),
    }
}

fn ambiguous(keys: usize) -> Error {
    anyhow!(
        "this name matches {keys} keys: give the id of one, or the kind of each part (s:42 is text, i:42 an integer)"
    )
}
