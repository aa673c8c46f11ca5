//! Terminal records and the dead-letter queue.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{
    Bench, DLQ, Notes, Order, STANDARD, Tested, assert_contains, failures, grouped, json_body,
    order, orders, with,
};
use serde_json::{Value, json};
use sqs_once::extract::RecordEnd;
use sqs_once::{Handler, HandlerError, ResultExt};
use tokio::sync::Notify;

const DENIED: Turn = Turn::Refuse("com.amazonaws.sqs#AccessDeniedException");
const LIMIT: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("the card was refused")]
struct Refused(#[source] std::io::Error);

trait Says: Fn() -> HandlerError + Clone + Send + Sync + 'static {}

impl<F: Fn() -> HandlerError + Clone + Send + Sync + 'static> Says for F {}

/// A handler for which every record is terminal, with this error.
fn refusal(error: impl Says) -> Handler {
    orders().call(move |_: Order| ready(Err::<(), _>(error()).terminal()))
}

fn dead_lettering(sqs: &Sqs, url: &str, handler: Handler) -> Tested {
    let bench = Bench::new().on(handler);
    bench.with_consumer(|it| it.queue(sqs.queue().dead_letter_queue(url)))
}

fn refusing(sqs: &Sqs) -> Tested {
    dead_lettering(sqs, DLQ, refusal(no_such_card))
}

async fn moved(record: Value, error: impl Says) -> Value {
    let sqs = Sqs::default();
    let failed = dead_lettering(&sqs, DLQ, refusal(error))
        .run([record])
        .await;
    assert_eq!(failed, [""; 0]);
    let [sent] = sqs.asked("SendMessage").try_into().unwrap();
    sent
}

fn no_such_card() -> HandlerError {
    "no such card".into()
}

fn text<'a>(sent: &'a Value, attribute: &str) -> Option<&'a str> {
    sent["MessageAttributes"][attribute]["StringValue"].as_str()
}

fn string(value: &str) -> Value {
    json!({ "dataType": "String", "stringValue": value })
}

fn with_attributes(attributes: Value) -> Value {
    with(order("o-1"), json!({ "messageAttributes": attributes }))
}

fn with_own(count: usize) -> Value {
    let own = (0..count).map(|at| (format!("own-{at}"), string("x")));
    with_attributes(own.collect())
}

/// The message's size as SQS counts it.
fn size(sent: &Value) -> usize {
    let attributes = sent["MessageAttributes"].as_object().unwrap();
    let attributes = attributes.iter().map(|(name, value)| {
        let text = value["StringValue"].as_str().unwrap();
        name.len() + value["DataType"].as_str().unwrap().len() + text.len()
    });
    sent["MessageBody"].as_str().unwrap().len() + attributes.sum::<usize>()
}

#[tokio::test(start_paused = true)]
async fn a_terminal_record_is_moved_with_all_it_had_and_all_there_is_to_know() {
    let trace = "Root=1-5759e988-bd862e3fe1be46a994272793";
    let mut record = with_attributes(json!({
        "tenant": string("seven"),
        "weight": { "dataType": "Number.float", "stringValue": "1.5" },
        "blob": { "dataType": "Binary", "binaryValue": "aGVsbG8=" },
    }));
    record["attributes"] = json!({
        "MessageGroupId": "tenant-7",
        "AWSTraceHeader": trace,
        "ApproximateReceiveCount": "3",
        "ApproximateFirstReceiveTimestamp": "1790000000123",
    });
    let expired = || Refused(std::io::Error::other("card expired")).into();
    let sent = moved(record, expired).await;

    assert_eq!(sent["QueueUrl"], DLQ);
    assert_eq!(sent["MessageBody"], order("o-1")["body"]);
    assert_eq!(sent["MessageGroupId"], "tenant-7");
    let system = &sent["MessageSystemAttributes"];
    assert_eq!(system["AWSTraceHeader"]["StringValue"], trace);
    let weight = json!({ "DataType": "Number.float", "StringValue": "1.5" });
    assert_eq!(sent["MessageAttributes"]["weight"], weight);
    let blob = json!({ "DataType": "Binary", "BinaryValue": "aGVsbG8=" });
    assert_eq!(sent["MessageAttributes"]["blob"], blob);
    for (attribute, value) in [
        ("tenant", "seven"),
        ("sqs-once-reason", "the card was refused"),
        ("sqs-once-source-queue", STANDARD),
        ("sqs-once-error-chain", "the card was refused: card expired"),
        ("sqs-once-message-id", "m-0"),
        ("sqs-once-receive-count", "3"),
        ("sqs-once-first-received", "1790000000123"),
    ] {
        assert_eq!(text(&sent, attribute), Some(value), "{attribute}");
    }
    // The ID of the key's item. The key itself must not appear.
    let key = text(&sent, "sqs-once-key").unwrap();
    let (_, hash) = key.split_once('#').unwrap();
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[tokio::test(start_paused = true)]
async fn a_fifo_dead_letter_queue_gets_the_group_and_the_message_id_to_deduplicate_by() {
    let fifo = format!("{DLQ}.fifo");
    let of_fifo = [["\"a\"", "\"m-0\""], ["\"m-1\"", "\"m-1\""]];
    let of_standard = [["\"a\"", "null"], ["null", "null"]];
    let with_slash = format!("{fifo}/");
    for (url, expected) in [
        (&*fifo, of_fifo),
        (&*with_slash, of_fifo),
        (DLQ, of_standard),
    ] {
        let sqs = Sqs::default();
        let bench = dead_lettering(&sqs, url, refusal(no_such_card));
        bench.run([grouped("a", "o-1"), order("o-2")]).await;
        let sent = sqs.asked("SendMessage").into_iter();
        let ids = ["MessageGroupId", "MessageDeduplicationId"];
        let ids = sent.map(|sent| ids.map(|id| sent[id].to_string()));
        assert_eq!(Vec::from_iter(BTreeSet::from_iter(ids)), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_acknowledged_only_after_sqs_has_confirmed() {
    let gate = Arc::new(Notify::new());
    let sqs = Sqs::turns([Turn::Hold(Arc::clone(&gate))]);
    let bench = refusing(&sqs);
    let invoking = bench.try_deliver(&bench.consumer, ["o-1"]);
    tokio::pin!(invoking);
    tokio::select! {
        biased;
        _ = &mut invoking => panic!("answered before SQS was"),
        () = sqs.arrived() => {}
    }
    assert_eq!(bench.outcomes(), "");
    gate.notify_one();
    assert_eq!(failures(&invoking.await.unwrap()), [""; 0]);
    assert_eq!(bench.outcomes(), "terminal");
}

#[tokio::test(start_paused = true)]
async fn without_a_confirmation_it_is_not_acknowledged() {
    // By the JSON and by the query protocol.
    let missing = Turn::Refuse("com.amazonaws.sqs#QueueDoesNotExist");
    let missing_by_query = Turn::Refuse("AWS.SimpleQueueService.NonExistentQueue");
    for (turn, said) in [
        (Turn::LoseAnswer, ""),
        (Turn::Hang, ""),
        (Turn::Empty, "the answer has no MessageId"),
        (DENIED, "sqs:SendMessage"),
        (missing, "no queue has that URL"),
        (missing_by_query, "no queue has that URL"),
    ] {
        let sqs = Sqs::always(turn.clone());
        let bench = refusing(&sqs);
        assert_eq!(bench.run(["o-1"]).await, ["m-0"], "{turn:?}");
        assert!(!sqs.requests().is_empty());
        assert_contains!(bench.log.all(), said);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_hears_whether_the_message_has_left_its_queue() {
    for (sqs, has_left) in [(Sqs::default(), true), (Sqs::always(Turn::Hang), false)] {
        let (heard, notes) = Notes::pair();
        let hears = notes.of(|end: RecordEnd| end.is_acknowledged());
        let handler = refusal(no_such_card).on_failure(hears);
        let bench = dead_lettering(&sqs, DLQ, handler);
        bench.run(["o-1"]).await;
        assert_eq!(heard.take(), [has_left]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_and_a_fifo_queue_recognises_it() {
    let sqs = Sqs::turns([Turn::LoseAnswer]);
    let bench = dead_lettering(&sqs, &format!("{DLQ}.fifo"), refusal(no_such_card));
    assert_eq!(bench.run(["o-1"]).await, [""; 0]);
    let [first, second] = sqs.asked("SendMessage").try_into().unwrap();
    assert_eq!(first, second);
    assert_eq!(first["MessageDeduplicationId"], "m-0");
}

#[tokio::test(start_paused = true)]
async fn a_message_with_ten_attributes_is_moved_as_it_is_and_one_with_nine_gets_the_reason() {
    for (own, added) in [
        (10, ""),
        (9, "sqs-once-reason"),
        (8, "sqs-once-reason sqs-once-source-queue"),
        (7, "sqs-once-key sqs-once-reason sqs-once-source-queue"),
    ] {
        let sent = moved(with_own(own), no_such_card).await;
        let attributes = sent["MessageAttributes"].as_object().unwrap();
        assert_eq!(attributes.len(), 10);
        let names = attributes.keys();
        let ours = names.filter(|name| name.starts_with("sqs-once"));
        let ours: BTreeSet<_> = ours.map(String::as_str).collect();
        assert_eq!(Vec::from_iter(ours).join(" "), added);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_takes_less_than_sqs_does_gets_the_message_without_what_is_added() {
    // SQS's answers to a message above the queue's `MaximumMessageSize`, in both protocols.
    let of_json = "com.amazon.coral.service#InvalidParameterValueException";
    for code in ["InvalidParameterValue", of_json] {
        let sqs = Sqs::turns([Turn::Refuse(code)]);
        let record = with_attributes(json!({ "tenant": string("seven") }));
        assert_eq!(refusing(&sqs).run([record]).await, [""; 0]);
        let [with, without] = sqs.asked("SendMessage").try_into().unwrap();
        assert_eq!(text(&with, "sqs-once-reason"), Some("no such card"));
        let tenant = json!({ "tenant": { "DataType": "String", "StringValue": "seven" } });
        assert_eq!(without["MessageAttributes"], tenant);
        assert_eq!(without["MessageBody"], with["MessageBody"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_its_dead_letter_queue_never_takes_stays_in_its_own() {
    for (record, requests) in [
        (order("o-1"), 2),
        // It has no added attributes to omit.
        (with_own(10), 1),
        // SQS takes no message without a body.
        (json!({}), 0),
        (json!({ "body": "" }), 0),
    ] {
        let sqs = Sqs::always(Turn::Refuse("InvalidParameterValue"));
        assert_eq!(refusing(&sqs).run([record]).await, ["m-0"]);
        assert_eq!(sqs.asked("SendMessage").len(), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_never_sent_to_the_queue_that_it_came_from() {
    let refused = [
        "https://sqs.eu-central-1.amazonaws.com/123456789012/orders",
        "https://eu-central-1.queue.amazonaws.com/123456789012/orders/",
        "http://localhost:4566/123456789012/orders",
        // The SDK uses the function's own region, whatever the host name contains.
        "https://sqs.us-east-1.amazonaws.com/123456789012/orders",
    ];
    let others = "https://sqs.eu-central-1.amazonaws.com/999999999999/orders";
    for url in refused.into_iter().chain([others, DLQ]) {
        let is_refused = refused.contains(&url);
        let sqs = Sqs::default();
        let bench = dead_lettering(&sqs, url, refusal(no_such_card));
        assert_eq!(!bench.run(["o-1"]).await.is_empty(), is_refused, "{url}");
        assert_eq!(sqs.requests().is_empty(), is_refused, "{url}");
        let said = "names the queue that the message came from";
        assert_eq!(bench.log.all().contains(said), is_refused, "{url}");
    }
}

/// An order whose body has exactly this size in bytes.
fn order_of(size: usize) -> Value {
    let empty = json!({ "id": "o-1", "note": "" }).to_string();
    json_body(&json!({ "id": "o-1", "note": "n".repeat(size - empty.len()) }))
}

#[tokio::test(start_paused = true)]
async fn a_message_of_any_size_is_moved_with_as_much_as_there_is_room_for() {
    const REASON: usize = "sqs-once-reason".len() + "String".len();
    let around = [REASON, REASON + 3, REASON + 4];
    let rooms = [0, 40, 100, 200, 2000, 40_000].into_iter().chain(around);
    for room in rooms {
        let sent = moved(order_of(LIMIT - room), || "x".repeat(20_000).into()).await;
        assert!(size(&sent) <= LIMIT, "{room}: {}", size(&sent));
        let reason = text(&sent, "sqs-once-reason");
        assert_eq!(reason.is_some(), room > REASON + 3, "{room}: {reason:?}");
        if let Some(reason) = reason {
            assert!(reason.ends_with('…') && reason.len() <= 1024);
        }
        let id = text(&sent, "sqs-once-message-id");
        assert_eq!(id, (room >= 2000).then_some("m-0"));
        let chain = text(&sent, "sqs-once-error-chain");
        let fits = chain.map(|chain| chain.len() <= 16 * 1024);
        assert_eq!(fits, (room >= 2000).then_some(true));
    }
}

#[tokio::test(start_paused = true)]
async fn binary_attributes_count_towards_what_there_is_room_for() {
    const PICTURE: usize = 30_000;
    let picture = "AAAA".repeat(PICTURE / 3);
    let names = "picture".len() + "Binary".len();
    for (room, has_reason) in [(PICTURE + names + 40, true), (PICTURE + names, false)] {
        let attribute = json!({ "dataType": "Binary", "binaryValue": picture });
        let mut record = order_of(LIMIT - room);
        record["messageAttributes"]["picture"] = attribute;
        let sent = moved(record, || "x".repeat(20_000).into()).await;
        assert_eq!(sent["MessageAttributes"]["picture"]["BinaryValue"], picture);
        assert_eq!(text(&sent, "sqs-once-reason").is_some(), has_reason);
        assert_eq!(text(&sent, "sqs-once-error-chain"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_a_cause_is_written_once_if_the_reason_has_room_for_it() {
    for (length, is_again) in [(1024, false), (1025, true), (16 * 1024, true)] {
        let sent = moved(order("o-1"), move || "x".repeat(length).into()).await;
        let all = "x".repeat(length);
        assert_eq!(text(&sent, "sqs-once-reason") == Some(&*all), !is_again);
        let chain = text(&sent, "sqs-once-error-chain");
        assert_eq!(chain, is_again.then_some(&*all));
    }
    // Characters that SQS refuses are replaced.
    let error = || "a\u{0}b\u{1b}[31mc\u{fffe}\u{ffff}\t\n\u{10000}ü".into();
    let sent = moved(order("o-1"), error).await;
    let reason = "a\u{fffd}b\u{fffd}[31mc\u{fffd}\u{fffd}\t\n\u{10000}ü";
    assert_eq!(text(&sent, "sqs-once-reason"), Some(reason));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_moved_before_tells_of_its_last_move() {
    let record = with_attributes(json!({
        "sqs-once-reason": string("an old reason"),
        "sqs-once-function": string("an old function"),
        // It was redriven to another queue than the one that it came from.
        "sqs-once-source-queue": string("arn:aws:sqs:eu-central-1:123456789012:refunds"),
        "tenant": string("seven"),
    }));
    let sent = moved(record, no_such_card).await;
    assert_eq!(text(&sent, "sqs-once-reason"), Some("no such card"));
    assert_eq!(text(&sent, "sqs-once-function"), None);
    assert_eq!(text(&sent, "sqs-once-source-queue"), Some(STANDARD));
    assert_eq!(text(&sent, "tenant"), Some("seven"));
}

#[tokio::test(start_paused = true)]
async fn a_group_goes_on_after_a_dead_letter_once_that_has_left_the_queue() {
    for (turn, failed) in [
        (Turn::Do, vec![]),
        (Turn::LoseAnswer, vec!["m-1", "m-2"]),
        (DENIED, vec!["m-1", "m-2"]),
    ] {
        let sqs = Sqs::always(turn);
        let (bench, _) = crate::support::noting();
        let queue = sqs.queue().dead_letter_queue(format!("{DLQ}.fifo"));
        let bench = bench.with_consumer(|it| it.queue(queue));
        let records = ["a1", "hopeless", "a2"].map(|id| grouped("a", id));
        assert_eq!(bench.run(records).await, failed);
        assert_eq!(bench.store.item("a2").is_some(), failed.is_empty());
        assert!(!sqs.asked("SendMessage").is_empty());
    }
}
