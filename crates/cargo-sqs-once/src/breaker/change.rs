//! `cargo sqs-once breaker open` and `breaker close`.

use super::{ChangeArgs, shown};
use crate::confirm::confirm;
use crate::operate::{Audit, ItemChange, keys, moment};
use crate::print;
use anyhow::{Context, Result};
use sqs_once::random::{OsRandom, Random};
use sqs_once::store::Owner;
use sqs_once::time::{Clock, SystemClock};
use sqs_once_operate::{BreakerName, BreakerState, Change};
use std::time::Duration;

/// Shows the breaker, asks, opens or closes it, and reports the change.
pub(super) async fn change(args: &ChangeArgs, open_for: Option<Duration>) -> Result<()> {
    let name = BreakerName::new(&args.name)?;
    let id = name.id();
    let (keys, place) = keys(&args.table).await?;
    let seen = keys.read(std::slice::from_ref(&id)).await?.pop();
    let now = SystemClock.now();
    print::note(shown::text(&name, seen.as_ref(), now).trim_end());
    let is_closed = BreakerState::from_item(seen.as_ref(), now) == BreakerState::Closed;
    if is_closed && open_for.is_none() {
        print::note("nothing had to be changed");
        return Ok(());
    }
    let mut audit = Audit::open(&args.audit, &place.config).await?;
    let question = match open_for {
        None => format!("Close {name}? Its records are handled again."),
        Some(duration) => {
            let duration = humantime::format_duration(duration);
            format!("Open {name} for {duration}? Until then, its records return to the queue.")
        }
    };
    let question = format!("{}: {question}", audit.place(&place.table));
    confirm(&question, args.yes).await?;

    // The answer may have taken a while.
    let at = SystemClock.now();
    let (action, change, done) = match open_for {
        None => {
            let change = Change::Complete { expiration: at };
            ("close", change, format!("closed {name}"))
        }
        Some(duration) => {
            let until = at + duration;
            let done = format!("opened {name} until {}", moment(until));
            ("open", Change::Open { until }, done)
        }
    };
    let owner = Owner::from_bits(OsRandom.bits());
    let after = change.write(&id, seen.as_ref(), owner, at);
    let after = after.context("the change writes nothing")?;
    let change = ItemChange {
        keys: &keys,
        table: &place.table,
        action,
        kind: "breaker",
        seen: seen.as_ref(),
        document: &|item| shown::document(&name, Some(item), at),
        text: &|item| shown::text(&name, Some(item), at),
    };
    let line = change.write(&after, &mut audit).await?;
    print::result(match args.json {
        true => line,
        false => done,
    })
}
