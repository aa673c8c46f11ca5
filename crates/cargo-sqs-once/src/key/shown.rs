//! Formats a key's item for people and as JSON.

use crate::operate::{at, moment};
use crate::print::one_line;
use serde_json::{Value, json};
use sqs_once::store::{Fence, Item, Status};
use sqs_once::time::Timestamp;
use sqs_once_operate::State;

/// The start of 2020. Fences from here on are times, because the first fence of a key is the time of its claim.
const FENCES_ARE_TIMES_FROM: u64 = 1_577_836_800_000;

/// What the item's state means for the next message with this key.
pub(super) fn meaning(state: State) -> &'static str {
    match state {
        State::InProgress => "somebody is working on it; its messages go back to the queue",
        State::Lapsed => "its last attempt ended without a word; its next message runs",
        State::Released => "its last attempt failed, or somebody forgot it; its next message runs",
        State::Completed => "done; its messages are duplicates",
        State::Expired => "done, but the record has expired; its next message would run again",
        State::Unknown => "no consumer writes such a status, and none can claim it",
    }
}

/// Formats the item, one line for every known attribute.
pub(super) fn text(item: &Item, shows_data: bool, now: Timestamp) -> String {
    let state = State::from_item(item, now);
    let mut lines = vec![
        ("key", one_line(item.id.as_str())),
        ("state", format!("{state}: {}", meaning(state))),
    ];
    if let Status::Unknown(status) = &item.status {
        lines.push(("status", one_line(status)));
    }
    if let Some(first) = first_claimed(item, now) {
        lines.push(("first claim", at(first, now)));
    }
    match item.lease_until {
        // The lease of a completed item has no meaning.
        Some(lease) if state == State::InProgress || state == State::Lapsed => {
            lines.push(("lease until", at(lease, now)));
        }
        _ => {}
    }
    if let Some(expiration) = item.expiration {
        lines.push(("expires", at(expiration, now)));
    }
    if let Some(owner) = item.owner {
        lines.push(("owner", owner.to_string()));
    }
    if let Some(fence) = item.fence {
        lines.push(("fence", fence.to_string()));
    }
    if let Some(fingerprint) = &item.fingerprint {
        lines.push(("payload", one_line(fingerprint.as_str())));
    }
    match &item.data {
        Some(data) if shows_data => lines.push(("data", one_line(data))),
        Some(data) => lines.push(("data", format!("{} bytes, which --data shows", data.len()))),
        None => {}
    }
    if is_powertools(item) {
        let text = "Powertools for AWS Lambda, which knows no owner and no fence";
        lines.push(("written by", text.to_owned()));
    }
    let lines = lines.iter();
    let lines = lines.map(|(name, value)| format!("{name:12}{value}\n"));
    lines.collect()
}

/// Formats the item as JSON.
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
