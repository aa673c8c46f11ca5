//! Applies events to a story.

use super::kept::Kept;
use super::limits::Limits;
use super::message::{Invoked, Message, State, What, shortened};
use crate::local_event::{Answer, LocalEvent};
use crate::log::RecordLine;
use crate::millis;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::SystemTime;
use uuid::Uuid;

/// How many environments to remember. Log lines of an ended environment may still arrive.
const ENVIRONMENTS: usize = 1024;

pub(super) struct StoryState {
    /// A random id that distinguishes this story from others.
    pub(super) run: Arc<str>,
    pub(super) queue: Arc<str>,
    /// The known ones, sorted.
    pub(super) dead_letters: BTreeSet<Arc<str>>,
    pub(super) kept: Kept,
    environments: BTreeMap<u32, Environment>,
    /// The time of the latest event.
    pub(super) at: u64,
}

#[derive(Default)]
struct Environment {
    current: Option<u64>,
    /// The invocation before. Its log lines may be read after the next batch was sent.
    previous: Option<u64>,
    has_ended: bool,
}

/// The ids in a JSON log line that link it to a message or an invocation.
#[derive(Deserialize)]
struct Names<'a> {
    #[serde(borrow)]
    message_id: Option<Cow<'a, str>>,
    // The second name is the one that `lambda_runtime` uses.
    #[serde(borrow, rename = "function_request_id", alias = "requestId")]
    request_id: Option<Cow<'a, str>>,
}

impl StoryState {
    pub(super) fn new(queue: &str, dead_letters: Option<&str>, limits: Limits) -> Self {
        Self {
            run: Arc::from(Uuid::new_v4().simple().to_string()),
            queue: Arc::from(queue),
            dead_letters: dead_letters.into_iter().map(Arc::from).collect(),
            kept: Kept::new(limits),
            environments: BTreeMap::new(),
            at: 0,
        }
    }

    pub(super) fn running(&self) -> usize {
        let all = self.environments.values();
        all.filter(|environment| !environment.has_ended).count()
    }

    pub(super) fn apply(&mut self, at: SystemTime, event: &LocalEvent) {
        let at = millis(at);
        self.at = self.at.max(at);
        match event {
            LocalEvent::EnvironmentStarted { environment } => {
                let environment = *environment;
                self.environments
                    .insert(environment, Environment::default());
                if self.environments.len() > ENVIRONMENTS {
                    self.environments.pop_first();
                }
                self.kept
                    .note_function(at, What::EnvironmentStarted { environment });
            }
            LocalEvent::EnvironmentEnded {
                environment,
                reason,
            } => self.ended(at, *environment, reason),
            LocalEvent::Invoked {
                environment,
                request_id,
                queue,
                message_ids,
            } => self.invoked(at, *environment, request_id, queue, message_ids),
            LocalEvent::Record {
                environment,
                record,
            } => self.record(at, *environment, record),
            LocalEvent::Logged { environment, line } => self.logged(at, *environment, line),
            LocalEvent::Answered {
                environment,
                request_id,
                answer,
            } => self.answered(at, *environment, request_id, answer),
            LocalEvent::Fault { what, message_ids } => {
                let text = shortened(what);
                for id in message_ids {
                    let latest = self.kept.of_id(id).map(|message| message.number).max();
                    if let Some(number) = latest {
                        let text = Arc::clone(&text);
                        self.kept.note(number, at, What::Fault { text });
                    }
                }
            }
            _ => self.apply_queue(at, event),
        }
        self.kept.make_room();
    }

    /// Finds the message with this id in a queue. If several are unfinished, returns the one with the lowest `rank`,
    /// and of equal ones the oldest. If none is unfinished, the event concerns a copy of the latest one, which a worker
    /// still has. Creates a message only if the story has none with this id.
    pub(super) fn find<R: Ord>(
        &mut self,
        at: u64,
        queue: &str,
        id: &str,
        rank: impl Fn(&Message) -> R,
    ) -> u64 {
        let open = self
            .kept
            .of_id(id)
            .filter(|message| message.is_unfinished_in(queue));
        if let Some(message) = open.min_by_key(|message| rank(message)) {
            return message.number;
        }
        if let Some(message) = self.kept.of_id(id).last() {
            return message.number;
        }
        // If the story has forgotten an unfinished message, assume that it was this one.
        let forgotten = &mut self.kept.forgotten;
        forgotten.unfinished = forgotten.unfinished.saturating_sub(1);
        forgotten.sent = forgotten.sent.saturating_sub(1);
        let message = self.unknown(queue, id, at);
        let number = self.kept.insert(message);
        self.kept.note(number, at, What::SeenFirst);
        number
    }

    fn invoked(
        &mut self,
        at: u64,
        environment: u32,
        request_id: &str,
        queue: &str,
        message_ids: &[String],
    ) {
        if message_ids.is_empty() {
            return;
        }
        let request_id = shortened(request_id);
        let invoked = Invoked {
            environment,
            request_id: Arc::clone(&request_id),
        };
        let (mut numbers, mut taken) = (Vec::new(), HashSet::new());
        for id in message_ids {
            // Two records with the same id in a batch are two messages.
            let number = self.find(at, queue, id, |message| {
                let is_taken = taken.contains(&message.number);
                let has_invocation = message.invocation.is_some();
                (is_taken, message.state != State::InFlight, has_invocation)
            });
            numbers.push(number);
            taken.insert(number);
        }
        for number in &numbers {
            let mut is_noted = false;
            self.kept.change(*number, |message| {
                if message.invocation.is_some() {
                    return;
                }
                let mut entries = message.details.timeline.entries.iter_mut().rev();
                is_noted = entries.any(|entry| match &mut entry.what {
                    What::Received { invocation, .. } => {
                        *invocation = Some(invoked.clone());
                        true
                    }
                    _ => false,
                });
            });
            if !is_noted {
                self.kept.note(*number, at, What::Invoked(invoked.clone()));
            }
        }
        let invocation = self.kept.invoke(request_id, queue, &numbers);
        let environment = self.environments.entry(environment).or_default();
        environment.previous = environment.current.replace(invocation);
    }

    /// The invocations that a log line of an environment may belong to, the more likely one first.
    fn invocations(&self, environment: u32) -> impl Iterator<Item = u64> + use<> {
        let environment = self.environments.get(&environment);
        let both = environment.map_or([None, None], |one| [one.current, one.previous]);
        both.into_iter().flatten()
    }

    /// Finds the message with this id in the environment's invocations, or else the latest with this id.
    fn named(&self, environment: u32, id: &str, unless: impl Fn(&Message) -> bool) -> Option<u64> {
        let in_invocation = self.invocations(environment).find_map(|invocation| {
            let of_id = self.kept.of_id(id);
            let mut there = of_id.filter(|one| one.invocation == Some(invocation));
            there.find(|message| !unless(message)).map(|one| one.number)
        });
        in_invocation.or_else(|| self.kept.of_id(id).last().map(|message| message.number))
    }

    fn record(&mut self, at: u64, environment: u32, record: &RecordLine) {
        let Some(number) = self.named(environment, &record.message_id, |one| one.reported) else {
            return;
        };
        let short = |text: &Option<String>| text.as_deref().map(|text| shortened(text).to_string());
        let record = RecordLine {
            outcome: shortened(&record.outcome).to_string(),
            code: short(&record.code),
            reason: short(&record.reason),
            route: short(&record.route),
            key: short(&record.key),
            ..record.clone()
        };
        let outcome: Arc<str> = Arc::from(record.outcome.as_str());
        let (is_effect, is_duplicate) = (&*outcome == "processed", &*outcome == "duplicate");
        let reason = record.reason.as_deref().map(Arc::from);
        let key = record.key.as_deref().map(Arc::from);
        let line = What::Record { record };
        self.kept.update(number, at, line, |message| {
            // After its end, only a copy reports.
            let has_ended = message.dead || message.state.is_finished();
            if !has_ended || message.outcome.is_none() {
                message.outcome = Some(outcome);
                message.reason = reason;
            }
            message.effects += u32::from(is_effect);
            message.duplicates += u32::from(is_duplicate);
            message.reported = true;
            message.key = key.or(message.key.take());
        });
        self.tell_letter(number);
    }

    /// Passes the reason on to the dead letter that the function has sent, because it logs the outcome after that.
    fn tell_letter(&mut self, number: u64) {
        let message = self.kept.messages.get(&number).filter(|one| one.moved);
        let Some(message) = message.filter(|one| one.reason.is_some()) else {
            return;
        };
        let reason = message.reason.clone();
        if let Some(letter) = message.details.to.as_ref().map(|link| link.number) {
            self.kept.change(letter, |letter| letter.reason = reason);
        }
    }

    fn logged(&mut self, at: u64, environment: u32, line: &str) {
        let names = match line.starts_with('{') {
            true => serde_json::from_str::<Names<'_>>(line).ok(),
            false => None,
        };
        let message_id = names.as_ref().and_then(|names| names.message_id.as_deref());
        let request_id = names.as_ref().and_then(|names| names.request_id.as_deref());
        let line = shortened(line);
        if let Some(number) = message_id.and_then(|id| self.named(environment, id, |_| false)) {
            self.kept.note(number, at, What::Logged { line, own: true });
            return;
        }
        let of_request = request_id.and_then(|id| self.kept.of_request(id));
        let open = self.invocations(environment).next().filter(|number| {
            let invocation = self.kept.invocations.get(number);
            invocation.is_some_and(|invocation| invocation.is_open)
        });
        let logged = What::Logged { line, own: false };
        match of_request.or(open) {
            Some(invocation) => self.kept.note_invocation(invocation, at, logged),
            None => self.kept.note_function(at, logged),
        }
    }

    fn answered(&mut self, at: u64, environment: u32, request_id: &str, answer: &Answer) {
        let Some(number) = self.kept.of_request(request_id) else {
            return;
        };
        let Some(invocation) = self.kept.invocations.get_mut(&number) else {
            return;
        };
        invocation.is_open = false;
        let messages = invocation.messages.clone();
        let reason = match answer {
            Answer::Read { .. } => None,
            Answer::Failed { reason } => Some(shortened(reason)),
        };
        for message in messages {
            let Some(one) = self.kept.messages.get(&message) else {
                continue;
            };
            let returned = match answer {
                Answer::Read { failures } => failures.iter().any(|id| **id == *one.id),
                Answer::Failed { .. } => true,
            };
            let is_here = one.state == State::InFlight && one.invocation == Some(number);
            let answered = What::Answered {
                environment,
                returned,
                reason: reason.clone(),
            };
            self.kept.update(message, at, answered, |one| {
                if returned && is_here {
                    one.state = State::Returned;
                    // Without a record line, the answer determines the outcome.
                    if !one.reported {
                        one.outcome = Some("failed".into());
                    }
                }
            });
        }
    }

    fn ended(&mut self, at: u64, environment: u32, reason: &str) {
        let reason = shortened(reason);
        let what = || What::EnvironmentEnded {
            environment,
            reason: Arc::clone(&reason),
        };
        for invocation in self.invocations(environment) {
            let invocation = self.kept.invocations.get(&invocation);
            let open = invocation.filter(|invocation| invocation.is_open);
            let messages = open.map(|invocation| invocation.messages.clone());
            for number in messages.unwrap_or_default() {
                self.kept.note(number, at, what());
            }
        }
        self.environments.entry(environment).or_default().has_ended = true;
        self.kept.note_function(at, what());
    }
}
