//! Formats a breaker for people and as JSON.

use crate::operate::{at, distance, moment};
use serde_json::{Value, json};
use sqs_once::store::{Fence, Item};
use sqs_once::time::Timestamp;
use sqs_once_operate::{BreakerName, BreakerState};

fn meaning(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "records that depend on it are handled",
        BreakerState::Open { .. } => "records that depend on it return to the queue",
        BreakerState::HalfOpen { .. } => "the next worker with such a record sends a probe",
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

pub(super) fn heading() -> String {
    let (state, since, until) = ("state", "since", "until");
    format!("{state:12} {since:14} {until:14} dependency")
}

/// Formats a breaker on one line.
pub(super) fn line(name: &BreakerName, item: Option<&Item>, now: Timestamp) -> String {
    let state = BreakerState::from_item(item, now);
    let distance = |time: Option<Timestamp>| time.map_or(String::new(), |time| distance(time, now));
    row(
        state.name(),
        &distance(since(state)),
        &distance(until(state)),
        name,
    )
}

/// Formats a breaker whose item can't be read.
pub(super) fn unreadable(name: &BreakerName) -> String {
    row("unreadable", "", "", name)
}

fn row(state: &str, since: &str, until: &str, name: &BreakerName) -> String {
    format!("{state:12} {since:14} {until:14} {name}")
}

/// Formats a breaker on several lines.
pub(super) fn text(name: &BreakerName, item: Option<&Item>, now: Timestamp) -> String {
    let state = BreakerState::from_item(item, now);
    let moment = |time: Option<Timestamp>| time.map(|time| at(time, now));
    let lines = [
        ("dependency", Some(name.to_string())),
        (
            "state",
            Some(format!("{}: {}", state.name(), meaning(state))),
        ),
        ("since", moment(since(state))),
        ("until", moment(until(state))),
        (
            "fence",
            item.and_then(|item| item.fence).map(|it| it.to_string()),
        ),
    ];
    let lines = lines.into_iter();
    let lines = lines.filter_map(|(name, value)| Some(format!("{name:12}{}\n", value?)));
    lines.collect()
}

/// Formats a breaker as JSON.
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
