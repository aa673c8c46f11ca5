//! A story as the page reads it.

use super::apply::Told;
use super::kept::Forgotten;
use super::message::{Entry, Link, Message, State};
use crate::log::Outcome;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most characters of a body that stand in an overview.
const PREVIEW: usize = 80;

/// What changed since the page asked last.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    /// Whether this is everything, and what the page had is void.
    reset: bool,
    /// Tells this story from one before it, which the page may still know.
    run: Arc<str>,
    sequence: u64,
    /// The clock that the times are of.
    now: u64,
    queue: Arc<str>,
    messages: Vec<Summary>,
    /// The numbers of messages that were forgotten.
    removed: Vec<u64>,
    forgotten: Forgotten,
    /// Environments that run.
    environments: usize,
    /// What the function did outside of invocations, if that changed.
    function: Option<Vec<Entry>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    number: u64,
    id: Arc<str>,
    queue: Arc<str>,
    dead: bool,
    state: State,
    at: u64,
    visible_at: u64,
    receives: u32,
    outcome: Option<Outcome>,
    key: Option<Arc<str>>,
    group_id: Option<Arc<str>>,
    preview: String,
    changed: u64,
}

/// One message with its timeline.
#[derive(Debug, Serialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    summary: Summary,
    sent_at: u64,
    body: Arc<str>,
    attributes: Arc<Map<String, Value>>,
    from: Option<Link>,
    to: Option<Link>,
    /// Other messages of the same id.
    copies: Vec<Link>,
    entries: Vec<Entry>,
    /// Entries and log lines that were forgotten.
    entries_forgotten: u64,
}

/// Everything, for a report.
#[derive(Debug, Serialize)]
pub(super) struct Whole {
    overview: Overview,
    details: BTreeMap<u64, Detail>,
}

impl Summary {
    fn new(message: &Message) -> Self {
        Self {
            number: message.number,
            id: Arc::clone(&message.id),
            queue: Arc::clone(&message.queue),
            dead: message.dead,
            state: message.state,
            at: message.at,
            visible_at: message.visible_at,
            receives: message.receives,
            outcome: message.outcome,
            key: message.key.clone(),
            group_id: message.group_id.clone(),
            preview: message.body.chars().take(PREVIEW).collect(),
            changed: message.changed,
        }
    }
}

impl Told {
    /// What changed after `since`, as seen `now`; everything for 0.
    pub(super) fn overview(&self, since: u64, now: u64) -> Overview {
        let kept = &self.kept;
        let known = (since > 0).then(|| kept.changed(since));
        let (reset, messages, removed) = match known.flatten() {
            Some((messages, removed)) => (false, messages, removed),
            None => (true, kept.messages.values().collect(), Vec::new()),
        };
        let function = (reset || kept.function_changed > since)
            .then(|| kept.function.iter().cloned().collect());
        Overview {
            reset,
            run: Arc::clone(&self.run),
            sequence: kept.sequence,
            now,
            queue: Arc::clone(&self.queue),
            messages: messages.into_iter().map(Summary::new).collect(),
            removed,
            forgotten: kept.forgotten,
            environments: self.running(),
            function,
        }
    }

    pub(super) fn detail(&self, number: u64) -> Option<Detail> {
        let message = self.kept.messages.get(&number)?;
        let invocations = message.invocations.iter();
        let invocations = invocations.filter_map(|number| self.kept.invocations.get(number));
        let mut entries: Vec<_> = message.entries.iter().cloned().collect();
        let mut entries_forgotten = message.entries_forgotten;
        for invocation in invocations {
            entries.extend(invocation.lines.iter().cloned());
            entries_forgotten += invocation.lines_forgotten;
        }
        entries.sort_by_key(|entry| entry.order);
        let copies = self.kept.of_id(&message.id);
        let copies = copies.filter(|copy| copy.number != number);
        Some(Detail {
            summary: Summary::new(message),
            sent_at: message.sent_at,
            body: Arc::clone(&message.body),
            attributes: Arc::clone(&message.attributes),
            from: message.from.clone(),
            to: message.to.clone(),
            copies: copies.map(Message::link).collect(),
            entries,
            entries_forgotten,
        })
    }

    pub(super) fn whole(&self) -> Whole {
        let numbers = self.kept.messages.keys();
        let details = numbers.filter_map(|number| Some((*number, self.detail(*number)?)));
        Whole {
            overview: self.overview(0, self.at),
            details: details.collect(),
        }
    }
}
