//! Opens a body with each envelope.

mod reference;

use std::cell::RefCell;
use std::sync::Arc;

use sqs_once::Handler;
use sqs_once::body::{Auto, DecodeError, Envelope, EventBridge, Opened, S3, Sns, Text};
use sqs_once::extract::{EventBridgeMeta, Message, S3Object, SnsMeta};
use sqs_once::key::MessageKey;
use sqs_once::telemetry::Outcome;
use sqs_once::testing::{Answer, Bench, Event, Record};

use crate::{log, runtime};
use reference::Inside;

/// The values that a handler received.
struct Seen {
    payload: String,
    /// The value of the message attribute `order-id`.
    attribute: Option<String>,
    sns: Option<SnsMeta>,
    event: Option<EventBridgeMeta>,
    object: Option<S3Object>,
}

thread_local! {
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
    static HANDLERS: [Handler; 7] = [
        handler(Sns),
        handler(EventBridge),
        handler(S3),
        handler((Sns, EventBridge)),
        handler((Sns, S3)),
        handler(Auto),
        handler((Tenanted, Sns)),
    ];
}

fn handler(envelope: impl Envelope) -> Handler {
    Handler::decode(Text)
        .key(MessageKey::message_id())
        .call(
            async |payload: String,
                   message: Arc<Message>,
                   sns: Option<SnsMeta>,
                   event: Option<EventBridgeMeta>,
                   object: Option<S3Object>| {
                SEEN.set(Some(Seen {
                    payload,
                    attribute: message.attribute("order-id").map(str::to_owned),
                    sns,
                    event,
                    object,
                }));
            },
        )
        .envelope(envelope)
        .namespace("fuzz")
}

/// A user's own envelope: `tenant|payload`.
struct Tenanted;

impl Envelope for Tenanted {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
        match content.split_once('|') {
            Some((_, payload)) => Ok(Opened::new(payload)),
            None => Err(DecodeError::envelope("tenant", "it has no `|`")),
        }
    }
}

/// Checks the promises of each envelope for any body:
///
/// - The payload is the content of the envelope, byte for byte, and the metadata is the envelope's.
/// - Any other body is terminal. For [`Sns`] and [`Auto`], which accept such bodies, the whole body is the payload.
/// - Only S3's test event is acknowledged without a handler.
/// - Neither the reason nor any log line shows the body, except for the ids of which a correlation id is made.
///
/// # Panics
/// If the library breaks a promise.
pub fn envelope(bytes: &[u8]) {
    let Ok(body) = std::str::from_utf8(bytes) else {
        return;
    };
    let event = Event::new([Record::text(body)]);
    let found = HANDLERS.with(|handlers| handlers.each_ref().map(|one| open(one, &event, body)));
    let [sns, bridge, s3, sns_bridge, sns_s3, auto, own] = &found;
    check(sns, &reference::sns(body));
    check(bridge, &reference::event_bridge(body));
    check(s3, &reference::s3(body));
    check(
        sns_bridge,
        &reference::sns(body).then(reference::event_bridge),
    );
    check(sns_s3, &reference::sns(body).then(reference::s3));
    check(auto, &reference::auto(body));
    match body.split_once('|') {
        Some((_, payload)) => check(own, &reference::sns(payload)),
        None => check(own, &Inside::Wrong),
    }
}

/// What a consumer's handler received, and the outcome of the record.
fn open(handler: &Handler, event: &Event, body: &str) -> (Option<Seen>, Outcome) {
    let bench = Bench::new(handler.clone());
    let (answer, logged): (Answer, _) = log::of(|| runtime::block_on(bench.run(event)));
    // Logs may show ids from an envelope.
    if !body.contains('\\') && !reference::ids(body).contains(log::CANARY) {
        assert!(!logged.contains(log::CANARY), "the log shows: {logged}");
    }
    let reason = answer.reason("m-1").unwrap_or_default();
    assert!(!reason.contains(log::CANARY), "the reason shows: {reason}");
    let (seen, outcome) = (SEEN.take(), answer.outcome("m-1"));
    assert_eq!(answer.retried().is_empty(), outcome != Outcome::Terminal);
    assert_eq!(seen.is_some(), outcome == Outcome::Processed, "{answer:?}");
    (seen, outcome)
}

fn check((seen, outcome): &(Option<Seen>, Outcome), expected: &Inside) {
    let payload = match expected {
        Inside::Payload(payload) => payload,
        Inside::Wrong => return assert_eq!(*outcome, Outcome::Terminal),
        Inside::Nothing => return assert_eq!(*outcome, Outcome::Ignored),
    };
    let seen = seen.as_ref().expect("what can be opened is handled");
    assert_eq!(seen.payload, payload.content);
    assert_eq!(seen.attribute.as_ref(), payload.attributes.get("order-id"));
    let topic = seen.sns.as_ref().map(|sns| &sns.topic_arn);
    assert_eq!(topic, payload.topic.as_ref());
    let source = seen.event.as_ref().map(|event| &event.source);
    assert_eq!(source, payload.source.as_ref());
    let object = seen
        .object
        .as_ref()
        .map(|object| (&object.bucket, &object.key));
    let expected = payload.object.as_ref().map(|(bucket, key)| (bucket, key));
    assert_eq!(object, expected);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finds;

    #[test]
    fn another_payload_and_an_envelope_that_should_stay_closed_are_found() {
        let body = r#"{"source":"shop","detail":{"n":18446744073709551617}}"#;
        let event = Event::new([Record::text(body)]);
        let found = open(&handler(EventBridge), &event, body);
        let rounded = body.replace("1617", "2000");
        finds("18446744073709552000", || {
            check(&found, &reference::event_bridge(&rounded));
        });
        finds("Terminal", || check(&found, &reference::s3(body)));
    }
}
