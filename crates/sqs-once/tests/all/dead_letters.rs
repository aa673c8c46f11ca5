//! Terminal records and the dead-letter queue.

use std::sync::{Arc, Mutex};

use crate::support::sqs::{Sqs, Turn};
use crate::support::{Bench, Order, event, failures, grouped, order, outcomes};
use serde_json::{Value, json};
use sqs_once::policy::AfterDeadLetter;
use sqs_once::{Consumer, EventError, HandlerError, ResultExt, consumer};
use tokio::sync::Notify;

const DLQ: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dlq";
const LIMIT: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("the card was refused")]
struct Refused(#[source] std::io::Error);

/// A consumer for which every record is terminal, with `error`.
fn refusing(
    bench: &Bench,
    sqs: &Sqs,
    url: &str,
    error: impl Fn() -> HandlerError + Clone + Send + Sync + 'static,
) -> Consumer {
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .dead_letter_queue(url)
        .sqs_client(sqs.client())
        .handler(move |_: Order| {
            let error = error.clone();
            async move { Err::<(), _>(error()).terminal() }
        });
    bench.consumer(consumer)
}

fn no_such_card() -> HandlerError {
    "no such card".into()
}

/// Sends one record to the dead-letter queue.
async fn moved(
    record: Value,
    error: impl Fn() -> HandlerError + Clone + Send + Sync + 'static,
) -> Value {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let consumer = refusing(&bench, &sqs, DLQ, error);
    assert!(bench.invoke(&consumer, event([record])).await.is_empty());
    let [sent] = sqs.asked("SendMessage").try_into().unwrap();
    sent
}

fn text<'a>(sent: &'a Value, attribute: &str) -> Option<&'a str> {
    sent["MessageAttributes"][attribute]["StringValue"].as_str()
}

fn string(value: &str) -> Value {
    json!({ "dataType": "String", "stringValue": value })
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
    let mut record = order("o-1");
    record["attributes"] = json!({
        "MessageGroupId": "tenant-7",
        "AWSTraceHeader": "Root=1-5759e988-bd862e3fe1be46a994272793",
        "ApproximateReceiveCount": "3",
        "ApproximateFirstReceiveTimestamp": "1790000000123",
    });
    record["messageAttributes"] = json!({
        "tenant": string("seven"),
        "weight": { "dataType": "Number.float", "stringValue": "1.5" },
        "blob": { "dataType": "Binary", "binaryValue": "aGVsbG8=" },
    });
    let body = record["body"].clone();
    let sent = moved(record, || {
        Refused(std::io::Error::other("card expired")).into()
    })
    .await;

    assert_eq!(sent["QueueUrl"], DLQ);
    assert_eq!(sent["MessageBody"], body);
    assert_eq!(sent["MessageGroupId"], "tenant-7");
    assert_eq!(
        sent["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"],
        "Root=1-5759e988-bd862e3fe1be46a994272793"
    );
    assert_eq!(text(&sent, "tenant"), Some("seven"));
    let weight = json!({ "DataType": "Number.float", "StringValue": "1.5" });
    assert_eq!(sent["MessageAttributes"]["weight"], weight);
    let blob = json!({ "DataType": "Binary", "BinaryValue": "aGVsbG8=" });
    assert_eq!(sent["MessageAttributes"]["blob"], blob);
    assert_eq!(text(&sent, "sqs-once-reason"), Some("the card was refused"));
    assert_eq!(
        text(&sent, "sqs-once-error-chain"),
        Some("the card was refused: card expired")
    );
    assert_eq!(text(&sent, "sqs-once-message-id"), Some("m-0"));
    // The ID of the key's item. The key itself must not appear.
    let (_, key) = text(&sent, "sqs-once-key")
        .unwrap()
        .split_once('#')
        .unwrap();
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(text(&sent, "sqs-once-receive-count"), Some("3"));
    assert_eq!(
        text(&sent, "sqs-once-first-received"),
        Some("1790000000123")
    );
    // A standard queue has no deduplication IDs.
    assert_eq!(sent["MessageDeduplicationId"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_standard_dead_letter_queue_gets_no_group_for_a_message_without_one() {
    let sent = moved(order("o-1"), no_such_card).await;
    assert_eq!(sent["MessageGroupId"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn on_the_testing_kits_bench_too_the_client_of_the_code_sends_dead_letters() {
    let sqs = Sqs::default();
    let consumer = refusing(&Bench::new(), &sqs, DLQ, no_such_card);
    let event = sqs_once::testing::Event::new([&json!({ "id": "o-1" })]);
    let bench = sqs_once::testing::Bench::new(consumer);
    bench.run(event).await.assert_terminal("m-1");
    assert_eq!(sqs.asked("SendMessage").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fifo_dead_letter_queue_gets_the_group_and_the_message_id_to_deduplicate_by() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let consumer = refusing(&bench, &sqs, &format!("{DLQ}.fifo"), no_such_card);
    bench
        .invoke(&consumer, event([grouped("a", "o-1"), order("o-2")]))
        .await;
    let mut sent = sqs.asked("SendMessage");
    sent.sort_by_key(|sent| sent["MessageDeduplicationId"].to_string());
    let of = |sent: &Value| {
        (
            sent["MessageGroupId"].clone(),
            sent["MessageDeduplicationId"].clone(),
        )
    };
    assert_eq!(of(&sent[0]), (json!("a"), json!("m-0")));
    assert_eq!(of(&sent[1]), (json!("m-1"), json!("m-1")));
}

#[tokio::test(start_paused = true)]
async fn it_is_acknowledged_only_after_sqs_has_confirmed() {
    let (bench, gate) = (Bench::new(), Arc::new(Notify::new()));
    let sqs = Sqs::turns([Turn::Hold(Arc::clone(&gate))]);
    let consumer = refusing(&bench, &sqs, DLQ, no_such_card);
    let invoking = bench.try_invoke(&consumer, event([order("o-1")]));
    tokio::pin!(invoking);
    tokio::select! {
        biased;
        _ = &mut invoking => panic!("answered before SQS was"),
        () = sqs.arrived() => {}
    }
    assert!(bench.outcomes().is_empty());
    gate.notify_one();
    assert!(failures(&invoking.await.unwrap()).is_empty());
    assert_eq!(bench.outcomes(), outcomes([("m-0", "terminal")]));
}

#[tokio::test(start_paused = true)]
async fn without_a_confirmation_it_is_not_acknowledged() {
    for turn in [
        Turn::LoseAnswer,
        Turn::Hang,
        Turn::Refuse("com.amazonaws.sqs#AccessDeniedException"),
    ] {
        let (bench, sqs) = (Bench::new(), Sqs::always(turn.clone()));
        let consumer = refusing(&bench, &sqs, DLQ, no_such_card);
        let failed = bench.invoke(&consumer, event([order("o-1")])).await;
        assert_eq!(failed, ["m-0"], "{turn:?}");
        assert!(!sqs.requests().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_hears_whether_the_message_has_left_its_queue() {
    for (sqs, has_left) in [(Sqs::default(), true), (Sqs::always(Turn::Hang), false)] {
        let (bench, heard) = (Bench::new(), Arc::new(Mutex::new(Vec::new())));
        let hears = Arc::clone(&heard);
        let consumer = refusing(&bench, &sqs, DLQ, no_such_card).on_failure(move |end| {
            hears.lock().unwrap().push(end.is_acknowledged());
            std::future::ready(Ok(()))
        });
        bench.invoke(&consumer, event([order("o-1")])).await;
        assert_eq!(*heard.lock().unwrap(), [has_left]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_and_a_fifo_queue_recognises_it() {
    let (bench, sqs) = (Bench::new(), Sqs::turns([Turn::LoseAnswer]));
    let consumer = refusing(&bench, &sqs, &format!("{DLQ}.fifo"), no_such_card);
    let failed = bench.invoke(&consumer, event([order("o-1")])).await;
    assert!(failed.is_empty());
    let [first, second] = sqs.asked("SendMessage").try_into().unwrap();
    assert_eq!(first, second);
    assert_eq!(first["MessageDeduplicationId"], "m-0");
}

#[tokio::test(start_paused = true)]
async fn denied_access_names_the_permission_that_is_missing() {
    let bench = Bench::new();
    let sqs = Sqs::always(Turn::Refuse("com.amazonaws.sqs#AccessDeniedException"));
    let consumer = refusing(&bench, &sqs, DLQ, no_such_card);
    bench.invoke(&consumer, event([order("o-1")])).await;
    assert!(
        bench.log.all().contains("sqs:SendMessage"),
        "{}",
        bench.log.all()
    );
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_not_there_is_named_by_json_and_by_query_protocol() {
    for code in [
        "com.amazonaws.sqs#QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
    ] {
        let (bench, sqs) = (Bench::new(), Sqs::always(Turn::Refuse(code)));
        let consumer = refusing(&bench, &sqs, DLQ, no_such_card);
        bench.invoke(&consumer, event([order("o-1")])).await;
        let log = bench.log.all();
        assert!(log.contains("no queue has that URL"), "{code}: {log}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_with_ten_attributes_is_moved_as_it_is_and_one_with_nine_gets_the_reason() {
    for (own, added) in [
        (10, vec![]),
        (9, vec!["sqs-once-reason"]),
        (8, vec!["sqs-once-key", "sqs-once-reason"]),
    ] {
        let mut record = order("o-1");
        let names = (0..own).map(|at| (format!("own-{at}"), string("x")));
        record["messageAttributes"] = Value::Object(names.collect());
        let sent = moved(record, no_such_card).await;
        let attributes = sent["MessageAttributes"].as_object().unwrap();
        assert_eq!(attributes.len(), 10);
        let ours = attributes
            .keys()
            .filter(|name| name.starts_with("sqs-once"));
        let mut ours: Vec<_> = ours.collect();
        ours.sort();
        assert_eq!(ours, added);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_takes_less_than_sqs_does_gets_the_message_without_what_is_added() {
    // SQS's answers to a message above the queue's `MaximumMessageSize`, in both protocols.
    for code in [
        "InvalidParameterValue",
        "com.amazon.coral.service#InvalidParameterValueException",
    ] {
        let (bench, sqs) = (Bench::new(), Sqs::turns([Turn::Refuse(code)]));
        let consumer = refusing(&bench, &sqs, DLQ, no_such_card);
        let mut record = order("o-1");
        record["messageAttributes"] = json!({ "tenant": string("seven") });
        assert!(bench.invoke(&consumer, event([record])).await.is_empty());
        let [with, without] = sqs.asked("SendMessage").try_into().unwrap();
        assert_eq!(text(&with, "sqs-once-reason"), Some("no such card"));
        let tenant = json!({ "tenant": { "DataType": "String", "StringValue": "seven" } });
        assert_eq!(without["MessageAttributes"], tenant);
        assert_eq!(without["MessageBody"], with["MessageBody"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_its_dead_letter_queue_never_takes_stays_in_its_own() {
    for (own, requests) in [(0, 2), (10, 1)] {
        let (bench, sqs) = (
            Bench::new(),
            Sqs::always(Turn::Refuse("InvalidParameterValue")),
        );
        let consumer = refusing(&bench, &sqs, DLQ, no_such_card);
        let mut record = order("o-1");
        let names = (0..own).map(|at| (format!("own-{at}"), string("x")));
        record["messageAttributes"] = Value::Object(names.collect());
        assert_eq!(bench.invoke(&consumer, event([record])).await, ["m-0"]);
        // A message with ten attributes has no added attributes to omit.
        assert_eq!(sqs.asked("SendMessage").len(), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_never_sent_to_the_queue_that_it_came_from() {
    for (url, is_refused) in [
        (
            "https://sqs.eu-central-1.amazonaws.com/123456789012/orders",
            true,
        ),
        (
            "https://eu-central-1.queue.amazonaws.com/123456789012/orders/",
            true,
        ),
        ("http://localhost:4566/123456789012/orders", true),
        // The SDK uses the function's own region, whatever the host name contains.
        (
            "https://sqs.us-east-1.amazonaws.com/123456789012/orders",
            true,
        ),
        (
            "https://sqs.eu-central-1.amazonaws.com/999999999999/orders",
            false,
        ),
        (DLQ, false),
    ] {
        let (bench, sqs) = (Bench::new(), Sqs::default());
        let consumer = refusing(&bench, &sqs, url, no_such_card);
        let failed = bench.invoke(&consumer, event([order("o-1")])).await;
        assert_eq!(failed.len(), usize::from(is_refused), "{url}");
        assert_eq!(sqs.requests().is_empty(), is_refused, "{url}");
        let said = "names the queue that the message came from";
        assert_eq!(bench.log.all().contains(said), is_refused, "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_whose_dead_letter_queue_is_its_own_queue_does_not_start() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let own = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
    let consumer = refusing(&bench, &sqs, own, no_such_card).queue_url(own);
    let error = bench.try_invoke(&consumer, event([order("o-1")])).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the consumer's own queue"), "{error}");
    assert!(sqs.requests().is_empty());
}

/// An order whose body has exactly this size in bytes.
fn order_of(size: usize) -> Value {
    let empty = json!({ "id": "o-1", "note": "" }).to_string();
    let note = "n".repeat(size - empty.len());
    json!({ "body": json!({ "id": "o-1", "note": note }).to_string() })
}

#[tokio::test(start_paused = true)]
async fn a_message_of_any_size_is_moved_with_as_much_as_there_is_room_for() {
    const REASON: usize = "sqs-once-reason".len() + "String".len();
    for room in [
        0,
        REASON,
        REASON + 3,
        REASON + 4,
        40,
        100,
        200,
        2000,
        40_000,
    ] {
        let sent = moved(order_of(LIMIT - room), || "x".repeat(20_000).into()).await;
        assert!(size(&sent) <= LIMIT, "{room}: {}", size(&sent));
        let reason = text(&sent, "sqs-once-reason");
        assert_eq!(reason.is_some(), room > REASON + 3, "{room}: {reason:?}");
        if let Some(reason) = reason {
            assert!(reason.ends_with('…') && reason.len() <= 1024);
        }
        let id = text(&sent, "sqs-once-message-id");
        assert!(id.is_none_or(|id| id == "m-0"));
        assert_eq!(id.is_some(), room >= 2000);
        let chain = text(&sent, "sqs-once-error-chain");
        assert!(chain.is_none_or(|chain| chain.len() <= 16 * 1024));
        assert_eq!(chain.is_some(), room >= 2000);
    }
}

#[tokio::test(start_paused = true)]
async fn binary_attributes_count_towards_what_there_is_room_for() {
    const PICTURE: usize = 30_000;
    let picture = "AAAA".repeat(PICTURE / 3);
    let names = "picture".len() + "Binary".len();
    for (room, has_reason) in [(PICTURE + names + 40, true), (PICTURE + names, false)] {
        let mut record = order_of(LIMIT - room);
        record["messageAttributes"] =
            json!({ "picture": { "dataType": "Binary", "binaryValue": picture } });
        let sent = moved(record, || "x".repeat(20_000).into()).await;
        let attributes = &sent["MessageAttributes"];
        assert_eq!(attributes["picture"]["BinaryValue"], json!(picture));
        assert_eq!(text(&sent, "sqs-once-reason").is_some(), has_reason);
        assert_eq!(text(&sent, "sqs-once-error-chain"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_a_cause_is_written_once_if_the_reason_has_room_for_it() {
    let sent = moved(order("o-1"), || "x".repeat(1024).into()).await;
    assert_eq!(text(&sent, "sqs-once-reason"), Some(&*"x".repeat(1024)));
    assert_eq!(text(&sent, "sqs-once-error-chain"), None);
    for length in [1025, 16 * 1024] {
        let error = move || "x".repeat(length).into();
        let sent = moved(order("o-1"), error).await;
        let chain = text(&sent, "sqs-once-error-chain");
        assert_eq!(chain, Some(&*"x".repeat(length)));
    }
}

#[tokio::test(start_paused = true)]
async fn characters_that_sqs_refuses_are_replaced() {
    let sent = moved(order("o-1"), || {
        "a\u{0}b\u{1b}[31mc\u{fffe}\u{ffff}\t\n\u{10000}ü".into()
    })
    .await;
    assert_eq!(
        text(&sent, "sqs-once-reason"),
        Some("a\u{fffd}b\u{fffd}[31mc\u{fffd}\u{fffd}\t\n\u{10000}ü")
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_moved_before_tells_of_its_last_move() {
    let mut record = order("o-1");
    record["messageAttributes"] = json!({
        "sqs-once-reason": string("an old reason"),
        "sqs-once-function": string("an old function"),
        "tenant": string("seven"),
    });
    let sent = moved(record, no_such_card).await;
    assert_eq!(text(&sent, "sqs-once-reason"), Some("no such card"));
    assert_eq!(text(&sent, "sqs-once-function"), None);
    assert_eq!(text(&sent, "tenant"), Some("seven"));
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_body_is_left_to_redrive() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let consumer = refusing(&bench, &sqs, DLQ, no_such_card);
    let failed = bench
        .invoke(&consumer, event([json!({}), json!({ "body": "" })]))
        .await;
    assert_eq!(failed, ["m-0", "m-1"]);
    assert!(sqs.requests().is_empty());
}

/// Orders named `bad…` are terminal.
fn group_of_a(bench: &Bench, sqs: &Sqs) -> Consumer {
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .dead_letter_queue(&format!("{DLQ}.fifo"))
        .sqs_client(sqs.client())
        .handler(async |order: Order| -> Result<(), HandlerError> {
            if order.id.starts_with("bad") {
                Err("no such card").terminal()?;
            }
            Ok(())
        });
    bench.consumer(consumer)
}

#[tokio::test(start_paused = true)]
async fn a_group_stops_after_a_dead_letter_unless_it_is_to_go_on() {
    let records = || event(["a1", "bad", "a2"].map(|id| grouped("a", id)));
    for (after, failed) in [
        (None, vec!["m-2"]),
        (Some(AfterDeadLetter::Stop), vec!["m-2"]),
        (Some(AfterDeadLetter::GoOn), vec![]),
    ] {
        let (bench, sqs) = (Bench::new(), Sqs::default());
        let mut consumer = group_of_a(&bench, &sqs);
        if let Some(after) = after {
            consumer = consumer.after_dead_letter(after);
        }
        assert_eq!(bench.invoke(&consumer, records()).await, failed);
        assert_eq!(sqs.asked("SendMessage").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_never_goes_on_past_a_record_that_could_not_be_moved() {
    for turn in [
        Turn::LoseAnswer,
        Turn::Refuse("com.amazonaws.sqs#AccessDeniedException"),
    ] {
        let (bench, sqs) = (Bench::new(), Sqs::always(turn));
        let consumer = group_of_a(&bench, &sqs).after_dead_letter(AfterDeadLetter::GoOn);
        let records = ["bad", "a2"].map(|id| grouped("a", id));
        let failed = bench.invoke(&consumer, event(records)).await;
        assert_eq!(failed, ["m-0", "m-1"]);
        assert!(bench.store.item("a2").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_the_batch_of_a_dead_letter_is_returned() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let consumer = refusing(&bench, &sqs, DLQ, no_such_card);
    let failed = bench
        .invoke(&consumer, event([order("o-1"), order("o-1")]))
        .await;
    assert_eq!(failed, ["m-1"]);
    assert_eq!(sqs.asked("SendMessage").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_invocation_fails_when_every_record_did_only_by_request() {
    let bench = Bench::new();
    let failing = |sqs: &Sqs| refusing(&bench, sqs, DLQ, no_such_card);
    let two = || event([order("o-1"), order("o-2")]);
    let nowhere = Sqs::always(Turn::LoseAnswer);
    assert_eq!(bench.invoke(&failing(&nowhere), two()).await.len(), 2);

    let raising = failing(&nowhere).raise_on_total_failure(true);
    let error = bench.try_invoke(&raising, two()).await.unwrap_err();
    assert!(matches!(
        error,
        EventError::EveryRecordFailed { records: 2 }
    ));
    // An empty batch has no failures, and neither does a batch whose record is in the dead-letter queue.
    assert!(bench.invoke(&raising, event([])).await.is_empty());
    let moved = failing(&Sqs::default()).raise_on_total_failure(true);
    assert!(bench.invoke(&moved, two()).await.is_empty());
    // One moved record is enough.
    let one = Sqs::turns([Turn::Refuse("AccessDenied")]);
    let one = failing(&one).raise_on_total_failure(true);
    assert_eq!(bench.invoke(&one, two()).await.len(), 1);
}
