//! Formats a dead letter for people and as JSON.

use super::list::Members;
use crate::operate::{at, distance, fields, moment};
use crate::print::one_line;
use serde_json::{Map, Value, json};
use sqs_once::key::ItemId;
use sqs_once::store::Timestamp;
use sqs_once_operate::{DeadLetter, Group};

/// The system attributes to show.
const SYSTEM: [&str; 9] = [
    "ApproximateReceiveCount",
    "SentTimestamp",
    "ApproximateFirstReceiveTimestamp",
    "SenderId",
    "MessageGroupId",
    "MessageDeduplicationId",
    "SequenceNumber",
    "AWSTraceHeader",
    "DeadLetterQueueSourceArn",
];

pub(super) fn groups_heading() -> String {
    format!(
        "{:>7}  {:12}  {:14} {:14} {:36} {:16} reason",
        "count", "group", "first sent", "last sent", "example", "from"
    )
}

/// Formats a group on one line, with the reason of the example as it is.
pub(super) fn group_line(group: &Group, members: &Members, now: Timestamp) -> String {
    let distance = |sent: Option<Timestamp>| sent.map(|sent| distance(sent, now));
    let sources: Vec<_> = members.sources.iter().map(|name| one_line(name)).collect();
    format!(
        "{:>7}  {:12}  {:14} {:14} {:36} {:16} {}",
        members.count,
        group.id,
        distance(members.first).unwrap_or_default(),
        distance(members.last).unwrap_or_default(),
        one_line(&members.example),
        sources.join(","),
        one_line(members.reason.as_deref().unwrap_or(&group.reason)),
    )
}

pub(super) fn group_document(group: &Group, members: &Members) -> Value {
    json!({
        "group": group.id,
        "reason": group.reason,
        "count": members.count,
        "first": members.first.map(moment),
        "last": members.last.map(moment),
        "example": members.example,
        "example_reason": members.reason,
        "sources": members.sources,
    })
}

pub(super) fn heading() -> String {
    format!(
        "{:14} {:36} {:14} {:30} {:16} reason",
        "state", "message id", "sent", "key", "from"
    )
}

pub(super) fn line(letter: &DeadLetter, now: Timestamp) -> String {
    let sent = letter.sent_at().map(|sent| distance(sent, now));
    let key = letter.key().map(ItemId::short);
    let line = format!(
        "{:14} {:36} {:14} {:30} {:16} {}",
        letter.standing,
        one_line(letter.id()),
        sent.unwrap_or_default(),
        one_line(&key.unwrap_or_default()),
        one_line(letter.source().unwrap_or_default()),
        one_line(reason(letter).unwrap_or_default()),
    );
    line.trim_end().to_owned()
}

/// Why the message is here. SQS attaches no reason of its own.
fn reason(letter: &DeadLetter) -> Option<&str> {
    match letter.is_moved_by_sqs() {
        true => Some("moved by SQS: received too often"),
        false => letter.reason(),
    }
}

/// The query of CloudWatch Logs Insights for what the consumer said about a message. SQS keeps the message's id when it
/// moves the message.
pub(super) fn query(id: &str) -> String {
    format!(
        "fields @timestamp, outcome, reason | filter target = \"sqs_once::record\" and message_id = \"{}\" | sort @timestamp",
        one_line(id)
    )
}

/// Formats everything on several lines, with the body last.
pub(super) fn text(letter: &DeadLetter, now: Timestamp) -> String {
    let owned = |text: &str| text.to_owned();
    let system = |name| letter.system(name).map(owned);
    let query = letter.is_moved_by_sqs().then(|| query(letter.id()));
    let known = [
        ("message id", Some(owned(letter.id()))),
        ("state", Some(owned(letter.standing.name()))),
        ("key", letter.key().map(|key| owned(key.as_str()))),
        ("sent", letter.sent_at().map(|sent| at(sent, now))),
        ("received", system("ApproximateReceiveCount")),
        ("message group", system("MessageGroupId")),
        ("moved from", letter.source_arn().map(owned)),
        ("reason", reason(letter).map(owned)),
        ("group", Some(letter.group().id)),
        ("log query", query),
        ("trace", system("AWSTraceHeader")),
    ];
    let mut attributes: Vec<_> = letter.attributes().collect();
    attributes.sort_by_key(|(name, _)| *name);
    let attributes = attributes.into_iter().map(|(name, value)| {
        let shown = match (value.string_value(), value.binary_value()) {
            (Some(text), _) => owned(text),
            (None, Some(bytes)) => format!("{} bytes", bytes.as_ref().len()),
            (None, None) => String::new(),
        };
        let kind = value.data_type();
        ("attribute", Some(format!("{name} ({kind}): {shown}")))
    });
    let body = ("body", Some(owned(letter.body())));
    fields(14, known.into_iter().chain(attributes).chain([body]))
}

pub(super) fn change(letter: &DeadLetter, queue: &str, to: Option<&str>) -> Value {
    json!({
        "queue": queue,
        "to": to,
        "id": letter.id(),
        "key": letter.key().map(ItemId::as_str),
        "state": letter.standing.name(),
        "group": letter.group().id,
    })
}

pub(super) fn document(letter: &DeadLetter) -> Value {
    let attributes = letter.attributes().map(|(name, value)| {
        let bytes = value.binary_value().map(|bytes| bytes.as_ref().to_vec());
        let value = json!({
            "type": value.data_type(), "text": value.string_value(), "bytes": bytes,
        });
        (name.clone(), value)
    });
    let system = SYSTEM.into_iter();
    let system = system.filter_map(|name| Some((name.to_owned(), letter.system(name)?.into())));
    json!({
        "id": letter.id(),
        "state": letter.standing.name(),
        "key": letter.key().map(ItemId::as_str),
        "reason": reason(letter),
        "source": letter.source_arn(),
        "group": letter.group().id,
        "body": letter.body(),
        "attributes": attributes.collect::<Map<_, _>>(),
        "system": system.collect::<Map<_, Value>>(),
    })
}
