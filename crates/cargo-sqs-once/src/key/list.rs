//! `cargo sqs-once key list`.

use super::{ListArgs, StateArg, shown};
use crate::operate::{distance, keys, namespace};
use crate::print::{self, one_line};
use anyhow::Result;
use serde_json::json;
use sqs_once::store::Status;
use sqs_once::store::dynamodb::{Listed, Listing};
use sqs_once::time::{Clock, SystemClock, Timestamp};
use sqs_once_operate::{BreakerName, State};

pub(super) async fn list(args: ListArgs) -> Result<()> {
    let now = SystemClock.now();
    let namespace = namespace(&args.consumer)?;
    let unknown = args.unknown.then_some(State::Lapsed);
    let states = args.status.iter().map(|state| state.state()).chain(unknown);
    let states: Vec<State> = states.collect();
    let listing = Listing {
        prefix: namespace.map_or_else(String::new, |name| format!("{}#", name.as_str())),
        status: common_status(&states),
    };
    let (keys, _) = keys(&args.table).await?;
    let mut listed = 0;
    let mut from = None;
    loop {
        let (items, next) = keys.page(&listing, from).await?;
        for item in items.iter().filter(|item| is_wanted(item, &states, now)) {
            if listed == args.limit.get() {
                print::note(&format!("there may be more: these are the first {listed}"));
                return Ok(());
            }
            if listed == 0 && !args.json {
                let (state, lease, expires) = ("state", "lease", "expires");
                print::note(&format!("{state:12} {lease:14} {expires:14} key"));
            }
            let line = match args.json {
                true => json_line(item, now),
                false => line(item, now),
            };
            if !print::one_result(line)? {
                // Stop here: every further page would cost read units.
                return Ok(());
            }
            listed += 1;
        }
        from = next;
        if from.is_none() {
            break;
        }
    }
    if listed == 0 {
        print::note("no such keys");
    }
    Ok(())
}

/// The status that DynamoDB can filter by, if all states share one.
fn common_status(states: &[State]) -> Option<Status> {
    let all = |these: &[State]| states.iter().all(|state| these.contains(state));
    if states.is_empty() {
        None
    } else if all(&[State::InProgress, State::Lapsed, State::Released]) {
        Some(Status::InProgress)
    } else if all(&[State::Completed, State::Expired]) {
        Some(Status::Completed)
    } else {
        None
    }
}

/// Whether to list an item. Items that can't be read are in no state, but the user should see them.
/// The items of breakers are not keys.
fn is_wanted((id, item): &Listed, states: &[State], now: Timestamp) -> bool {
    match item {
        _ if BreakerName::from_id(id.as_str()).is_some() => false,
        Ok(item) => states.is_empty() || states.contains(&State::from_item(item, now)),
        Err(_) => states.is_empty() || states.contains(&State::Unknown),
    }
}

fn line((id, item): &Listed, now: Timestamp) -> String {
    let (mut state, mut lease, mut expires) = ("unreadable", String::new(), String::new());
    let distance = |time: Option<Timestamp>| time.map_or(String::new(), |time| distance(time, now));
    if let Ok(item) = item {
        let found = State::from_item(item, now);
        state = found.name();
        lease = distance(shown::lease(item, found));
        expires = distance(item.expiration);
    }
    let id = one_line(id.as_str());
    format!("{state:12} {lease:14} {expires:14} {id}")
}

fn json_line((id, item): &Listed, now: Timestamp) -> String {
    match item {
        Ok(item) => print::json_line(&shown::document(item, false, now)),
        Err(error) => print::json_line(
            &json!({"id": id.as_str(), "state": "unreadable", "error": error.to_string()}),
        ),
    }
}

impl StateArg {
    fn state(self) -> State {
        match self {
            Self::InProgress => State::InProgress,
            Self::Lapsed => State::Lapsed,
            Self::Released => State::Released,
            Self::Completed => State::Completed,
            Self::Expired => State::Expired,
            Self::Unknown => State::Unknown,
        }
    }
}
