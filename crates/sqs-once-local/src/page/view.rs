//! The JSON views of a story that the page reads.

use super::apply::Told;
use super::kept::Forgotten;
use super::message::{Entry, Link, Message, State};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most characters of a body in an overview.
const PREVIEW: usize = 80;

/// The changes since the page's last request.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    /// Whether this is the whole story and replaces what the page had.
    reset: bool,
    /// Distinguishes this story from an earlier one that the page may still show.
    run: Arc<str>,
    sequence: u64,
    /// The server's time, to which all other times relate.
    now: u64,
    queue: Arc<str>,
    messages: Vec<Summary>,
    /// The numbers of forgotten messages.
    removed: Vec<u64>,
    forgotten: Forgotten,
    /// The number of running environments.
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
    outcome: Option<Arc<str>>,
    key: Option<Arc<str>>,
    group_id: Option<Arc<str>>,
    preview: String,
    changed: u64,
}

/// One message and its timeline.
#[derive(Debug, Serialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    summary: Summary,
    sent_at: u64,
    body: Arc<str>,
    attributes: Arc<Map<String, Value>>,
    from: Option<Link>,
    to: Option<Link>,
    /// Other messages with the same id.
    copies: Vec<Link>,
    entries: Vec<Entry>,
    /// How many entries and log lines were forgotten.
    entries_forgotten: u64,
}

/// The whole story, for a report.
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
            outcome: message.outcome.clone(),
            key: message.key.clone(),
            group_id: message.group_id.clone(),
            preview: message.body.chars().take(PREVIEW).collect(),
            changed: message.changed,
        }
    }
}

impl Told {
    /// Returns what changed after `since`, at the time `now`. Returns everything if `since` is 0.
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
