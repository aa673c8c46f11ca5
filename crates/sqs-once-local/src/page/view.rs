//! The JSON views of a story that the page reads.

use super::apply::StoryState;
use super::kept::Forgotten;
use super::message::{Details, Entry, Link, Message};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    messages: Vec<Arc<Message>>,
    /// The numbers of forgotten messages.
    removed: Vec<u64>,
    forgotten: Forgotten,
    /// The number of running environments.
    environments: usize,
    /// What the function did outside of invocations, if that changed.
    function: Option<Vec<Entry>>,
}

/// One message and its timeline.
#[derive(Debug, Serialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    message: Arc<Message>,
    #[serde(flatten)]
    details: Details,
    /// Other messages with the same id.
    copies: Vec<Link>,
}

/// The whole story, for a report.
#[derive(Debug, Serialize)]
pub(super) struct Whole {
    overview: Overview,
    details: BTreeMap<u64, Detail>,
}

impl StoryState {
    /// Returns what changed after `since`, at the time `now`. Returns everything if `since` is 0.
    pub(super) fn overview(&self, since: u64, now: u64) -> Overview {
        let kept = &self.kept;
        let known = (since > 0).then(|| kept.changed(since));
        let (reset, messages, removed) = match known.flatten() {
            Some((messages, removed)) => (false, messages, removed),
            None => (true, kept.messages.values().cloned().collect(), Vec::new()),
        };
        let function = (reset || kept.function_changed > since)
            .then(|| kept.function.iter().cloned().collect());
        Overview {
            reset,
            run: Arc::clone(&self.run),
            sequence: kept.sequence,
            now,
            queue: Arc::clone(&self.queue),
            messages,
            removed,
            forgotten: kept.forgotten,
            environments: self.running(),
            function,
        }
    }

    pub(super) fn detail(&self, number: u64) -> Option<Detail> {
        let message = self.kept.messages.get(&number)?;
        let mut details = message.details.clone();
        let timeline = &mut details.timeline;
        for number in &message.invocations {
            if let Some(invocation) = self.kept.invocations.get(number) {
                timeline
                    .entries
                    .extend(invocation.lines.entries.iter().cloned());
                timeline.entries_forgotten += invocation.lines.entries_forgotten;
            }
        }
        let entries = timeline.entries.make_contiguous();
        entries.sort_by_key(|entry| entry.order);
        let copies = self.kept.of_id(&message.id);
        let copies = copies.filter(|copy| copy.number != number);
        Some(Detail {
            copies: copies.map(Message::link).collect(),
            message: Arc::clone(message),
            details,
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
