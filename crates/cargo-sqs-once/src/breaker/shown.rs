//! Formats a breaker for people and as JSON.

use crate::operate::{at, distance, fields, moment, row};
use serde_json::{Value, json};
use sqs_once::store::{Fence, Item, Timestamp};
use sqs_once_operate::{BreakerName, BreakerState};

fn meaning(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "messages that depend on it are handled",
        BreakerState::Open { .. } => "messages that depend on it return to the queue",
        BreakerState::HalfOpen { .. } => "the next worker with such a message sends a probe",
        BreakerState::Unknown => "no consumer writes this status, and no worker can open it",
    }
}

fn since(state: BreakerState) -> Option<Timestamp> {
    match state {
        BreakerState::Open { since, .. } | BreakerState::HalfOpen { since } => Some(since),
        BreakerState::Closed | BreakerState::Unknown => None,
    }
}

fn until(state: BreakerState) -> Option<Timestamp> {
    match state {
        BreakerState::Open { until, .. } => Some(until),
        _ => None,
    }
}

/// Formats a breaker on one line. Without an item, its item can't be read.
pub(super) fn line(name: &BreakerName, item: Option<&Item>, now: Timestamp) -> String {
    let name = name.to_string();
    let Some(item) = item else {
        return row(["unreadable", "", "", &name]);
    };
    let state = BreakerState::from_item(Some(item), now);
    let distance = |time: Option<Timestamp>| time.map_or(String::new(), |time| distance(time, now));
    let (since, until) = (distance(since(state)), distance(until(state)));
    row([state.name(), &since, &until, &name])
}

pub(super) fn text(name: &BreakerName, item: Option<&Item>, now: Timestamp) -> String {
    let state = BreakerState::from_item(item, now);
    let moment = |time: Option<Timestamp>| time.map(|time| at(time, now));
    let described = format!("{}: {}", state.name(), meaning(state));
    let fence = item.and_then(|item| item.fence).map(|it| it.to_string());
    let known = [
        ("dependency", Some(name.to_string())),
        ("state", Some(described)),
        ("since", moment(since(state))),
        ("until", moment(until(state))),
        ("fence", fence),
    ];
    fields(12, known)
}

pub(super) fn document(name: &BreakerName, item: Option<&Item>, now: Timestamp) -> Value {
    let state = BreakerState::from_item(item, now);
    json!({
        "name": name.to_string(),
        "state": state.name(),
        "since": since(state).map(moment),
        "until": until(state).map(moment),
        "owner": item.and_then(|item| item.owner).map(|owner| owner.to_string()),
        "fence": item.and_then(|item| item.fence).map(Fence::get),
    })
}
