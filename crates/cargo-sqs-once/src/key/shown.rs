//! Formats a key's item for people and as JSON.

use crate::operate::{at, fields, moment};
use serde_json::{Value, json};
use sqs_once::store::{Fence, Item, Status, Timestamp};
use sqs_once_operate::State;

/// The start of 2020. Fences from here on are times, because the first fence of a key is the time of its claim.
const FENCES_ARE_TIMES_FROM: u64 = 1_577_836_800_000;

/// What the item's state means for the next message with this key.
fn meaning(state: State) -> &'static str {
    match state {
        State::InProgress => "a worker is processing it; its messages return to the queue",
        State::Lapsed => "its last attempt ended without a result; its next message runs",
        State::Released => {
            "its last attempt failed, or a user forgot the key; its next message runs"
        }
        State::Completed => "done; its messages are duplicates",
        State::Expired => "done, but the completion has expired; its next message would run again",
        State::Unknown => "no consumer writes this status or can claim the key",
    }
}

pub(super) fn text(item: &Item, shows_data: bool, now: Timestamp) -> String {
    let state = State::from_item(item, now);
    let status = match &item.status {
        Status::Unknown(status) => Some(status.clone()),
        _ => None,
    };
    let data = item.data.as_ref().map(|data| match shows_data {
        true => data.to_string(),
        false => format!("{} bytes, which --data shows", data.len()),
    });
    let payload = item.fingerprint.as_ref().map(|it| it.as_str().to_owned());
    let powertools = "Powertools for AWS Lambda, which writes no owner and no fence";
    let powertools = is_powertools(item).then(|| powertools.to_owned());
    let moment = |moment: Option<Timestamp>| moment.map(|moment| at(moment, now));
    let known = [
        ("key", Some(item.id.to_string())),
        ("state", Some(format!("{state}: {}", meaning(state)))),
        ("status", status),
        ("first claim", moment(first_claimed(item, now))),
        ("lease until", moment(lease(item, state))),
        ("expires", moment(item.expiration)),
        ("owner", item.owner.map(|owner| owner.to_string())),
        ("fence", item.fence.map(|fence| fence.to_string())),
        ("payload", payload),
        ("data", data),
        ("written by", powertools),
    ];
    fields(12, known)
}

/// The item's lease. After a completion or a release, it has no meaning.
pub(super) fn lease(item: &Item, state: State) -> Option<Timestamp> {
    let is_leased = matches!(state, State::InProgress | State::Lapsed);
    item.lease_until.filter(|_| is_leased)
}

pub(super) fn document(item: &Item, shows_data: bool, now: Timestamp) -> Value {
    let mut document = json!({
        "id": item.id.as_str(),
        "state": State::from_item(item, now).name(),
        "status": match &item.status {
            Status::InProgress => "INPROGRESS",
            Status::Completed => "COMPLETED",
            Status::Unknown(status) => status,
        },
        "first_claimed": first_claimed(item, now).map(moment),
        "lease_until": item.lease_until.map(moment),
        "expires": item.expiration.map(moment),
        "owner": item.owner.map(|owner| owner.to_string()),
        "fence": item.fence.map(Fence::get),
        "validation": item.fingerprint.as_ref().map(|print| print.as_str()),
        "data_bytes": item.data.as_ref().map(|data| data.len()),
        "written_by": if is_powertools(item) { "powertools" } else { "sqs-once" },
    });
    if shows_data {
        document["data"] = item.data.as_deref().into();
    }
    document
}

fn is_powertools(item: &Item) -> bool {
    item.owner.is_none() && item.fence.is_none()
}

/// The time of a key's first claim. The first fence is that time, and each later claim adds one.
fn first_claimed(item: &Item, now: Timestamp) -> Option<Timestamp> {
    let fence = item.fence?.get();
    let is_time = (FENCES_ARE_TIMES_FROM..=now.as_millis()).contains(&fence);
    is_time.then(|| Timestamp::from_millis(fence))
}
