//! Reads an event independently of the library, to predict the fate of each record.

use serde_json::Value;
use sqs_once::BusinessKey;

use crate::json::Members;
use crate::log::CANARY;

/// Values of the payload's member `then`, which decide the handler's result.
pub(super) const RETRY: &str = "retry";
pub(super) const TERMINAL: &str = "terminal";
pub(super) const PANIC: &str = "panic";

pub(super) fn fails(then: &str) -> bool {
    [RETRY, TERMINAL, PANIC].contains(&then)
}

/// The length of the kind and the length prefix of a key's part.
const PREFIX: usize = 9;

pub(super) enum Reading {
    NoEvent,
    /// The event has an array in place of an object. serde's derived readers accept it, but SQS does not send it.
    Unclear,
    Records(Vec<Record>),
}

pub(super) struct Record {
    /// `None` if the record cannot be reported.
    pub(super) id: Option<String>,
    pub(super) fate: Fate,
    pub(super) is_fifo: bool,
    /// Whether the values of the record that a log may show contain the canary, or may contain it.
    pub(super) may_show_canary: bool,
}

pub(super) enum Fate {
    /// Its handler runs, unless another record with its key runs.
    Runs { key: String, fails: bool },
    /// Its handler never runs.
    Terminal,
    /// A shape that SQS does not send. The expected fate is unknown.
    Unclear,
}

impl Reading {
    pub(super) fn of(json: &str) -> Self {
        let Some(event) = Members::read(json) else {
            return match json.trim_start().starts_with('[') {
                true => Self::Unclear,
                false => Self::NoEvent,
            };
        };
        let records = event
            .array("Records")
            .filter(|_| event.count("Records") == 1);
        let Some(records) = records else {
            return Self::NoEvent;
        };
        if records.iter().any(|record| record.get().starts_with('[')) {
            return Self::Unclear;
        }
        let records = records.iter().map(|record| Record::of(record.get()));
        Self::Records(records.collect())
    }
}

impl Record {
    fn of(json: &str) -> Self {
        let Some(members) = Members::read(json) else {
            return Self {
                id: None,
                fate: Fate::Terminal,
                is_fifo: false,
                may_show_canary: false,
            };
        };
        // A duplicate member makes the record's identity or its queue ambiguous.
        let identity = ["messageId", "eventSourceARN", "attributes"];
        let is_named = identity.iter().all(|name| members.count(name) <= 1);
        let id = members
            .text("messageId")
            .filter(|id| is_named && !id.is_empty());
        let arn = members.text("eventSourceARN").unwrap_or_default();
        let secret = ["body", "receiptHandle"];
        let shown = members.iter().filter(|(name, _)| !secret.contains(name));
        let may_show = |value: &str| value.contains(CANARY) || value.contains('\\');
        let may_show_canary = shown.into_iter().any(|(_, value)| may_show(value));
        Self {
            id,
            fate: Fate::of(&members),
            is_fifo: arn.ends_with(".fifo"),
            may_show_canary,
        }
    }

    /// The id of a record in an event that was answered.
    pub(super) fn id(&self) -> &str {
        let id = self.id.as_deref();
        id.expect("an event with an unnamed record is never answered")
    }
}

impl Fate {
    fn of(members: &Members<'_>) -> Self {
        let Some(body) = members.text("body").filter(|_| members.count("body") == 1) else {
            return Self::Terminal;
        };
        let Ok(order) = serde_json::from_str::<Value>(&body) else {
            return Self::Terminal;
        };
        let Some(key) = order["order_id"].as_str().filter(|key| is_key(key)) else {
            return Self::Terminal;
        };
        if !is_as_sent(members) {
            return Self::Unclear;
        }
        Self::Runs {
            key: key.to_owned(),
            fails: order["then"].as_str().is_some_and(fails),
        }
    }
}

fn is_key(key: &str) -> bool {
    !key.trim().is_empty() && PREFIX + key.len() <= BusinessKey::MAX_LEN
}

/// Whether everything except the body has the shape that SQS sends.
fn is_as_sent(members: &Members<'_>) -> bool {
    let once = |name| members.count(name) <= 1;
    let is_text =
        |name| once(name) && (members.get(name).is_none() || members.text(name).is_some());
    let texts = |of: &Members<'_>| of.iter().all(|(name, _)| of.text(name).is_some());
    let is_object_of = |name, fits: &dyn Fn(&Members<'_>) -> bool| {
        once(name)
            && match members.get(name) {
                None | Some("null") => true,
                Some(object) => Members::read(object).is_some_and(|object| fits(&object)),
            }
    };
    let is_attribute = |of: &Members<'_>, name: &str| {
        of.object(name).is_some_and(|one| {
            let mut members = one.iter();
            let known = members.all(|(name, _)| ["stringValue", "dataType"].contains(&name));
            known && one.count("stringValue") <= 1 && one.count("dataType") == 1 && texts(&one)
        })
    };
    is_text("receiptHandle")
        && is_text("eventSourceARN")
        && is_object_of("attributes", &texts)
        && is_object_of("messageAttributes", &|of| {
            of.iter()
                .all(|(name, _)| of.count(name) == 1 && is_attribute(of, name))
        })
}
