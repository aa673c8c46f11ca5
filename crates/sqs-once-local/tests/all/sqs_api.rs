//! Tests the SQS API through the SDK for Rust: every operation, and its refusals.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageAttributeValue, MessageSystemAttributeName, MessageSystemAttributeNameForSends,
    MessageSystemAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry,
};
use aws_smithy_http_client::Builder;
use sqs_once_local::{LocalSqs, NewMessage, QueueSettings, Queues, Redrive};
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

const QUEUE: &str = "orders";
const DEAD: &str = "orders-dead";
const FIFO: &str = "orders.fifo";
const BY_CONTENT: &str = "by-content.fifo";
const SLOW: &str = "slow";
const MIB: usize = 1024 * 1024;
/// Shorter than the 20 s that a receive request waits.
const BEFORE_IT_GIVES_UP: Duration = Duration::from_secs(15);

fn queues() -> Queues {
    let mut queues = Queues::default();
    let mut create = |name: &str, settings| queues.create(name, settings).unwrap();
    let default = QueueSettings::default;
    create(DEAD, default());
    create(FIFO, default());
    create(
        QUEUE,
        QueueSettings {
            redrive: Some(Redrive {
                to: DEAD.to_owned(),
                max_receive_count: 1,
            }),
            ..default()
        },
    );
    create(
        BY_CONTENT,
        QueueSettings {
            content_based_deduplication: true,
            ..default()
        },
    );
    create(
        SLOW,
        QueueSettings {
            delay: Duration::from_secs(900),
            ..default()
        },
    );
    queues
}

async fn start() -> (LocalSqs, Client) {
    let sqs = LocalSqs::start(queues()).await.unwrap();
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(sqs.endpoint())
        .http_client(Builder::new().build_http())
        .build();
    (sqs, Client::from_conf(config))
}

fn text(value: &str) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type("String");
    attribute.string_value(value).build().unwrap()
}

async fn receive(client: &Client, queue: &str) -> Vec<Message> {
    let request = client.receive_message().queue_url(queue);
    let request = request
        .max_number_of_messages(10)
        .message_system_attribute_names(MessageSystemAttributeName::All)
        .message_attribute_names("All");
    request.send().await.unwrap().messages.unwrap_or_default()
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|one| one.body().unwrap()).collect()
}

async fn send(client: &Client, queue: &str, body: &str) {
    let request = client.send_message().queue_url(queue).message_body(body);
    request.send().await.unwrap();
}

/// The error code of a refused request.
macro_rules! refused {
    ($request:expr) => {
        $request
            .send()
            .await
            .unwrap_err()
            .code()
            .unwrap()
            .to_owned()
    };
}

#[tokio::test]
async fn a_message_arrives_with_all_that_was_sent() {
    let (sqs, client) = start().await;
    let trace = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value("Root=1-5759e988-bd862e3fe1be46a994272793")
        .build()
        .unwrap();
    let bytes = MessageAttributeValue::builder().data_type("Binary.png");
    let bytes = bytes.binary_value(Blob::new([0, 255])).build().unwrap();
    let sent = client
        .send_message()
        .queue_url(sqs.url(QUEUE))
        .message_body("héllo")
        .message_attributes("tenant", text("acme"))
        .message_attributes("picture", bytes)
        .message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, trace)
        .message_group_id("fair")
        .send()
        .await
        .unwrap();
    assert_eq!(sent.sequence_number(), None);
    assert!(sent.md5_of_message_system_attributes().is_some());

    let messages = receive(&client, &sqs.url(QUEUE)).await;
    let [message] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!(message.message_id(), sent.message_id());
    assert_eq!(message.body(), Some("héllo"));
    assert_eq!(message.md5_of_body(), sent.md5_of_message_body());
    assert_eq!(
        message.md5_of_message_attributes(),
        sent.md5_of_message_attributes()
    );
    let attributes = message.message_attributes().unwrap();
    assert_eq!(attributes["tenant"].string_value(), Some("acme"));
    assert_eq!(
        attributes["picture"].binary_value().unwrap().as_ref(),
        [0, 255]
    );
    let system = message.attributes().unwrap();
    let system = |name| system.get(&name).map(String::as_str);
    use MessageSystemAttributeName as Name;
    assert_eq!(system(Name::ApproximateReceiveCount), Some("1"));
    assert_eq!(system(Name::MessageGroupId), Some("fair"));
    assert!(system(Name::AwsTraceHeader).unwrap().starts_with("Root=1"));
    assert!(system(Name::SenderId).is_some());
    assert_eq!(system(Name::SequenceNumber), None);
}

#[tokio::test]
async fn the_digest_of_attributes_is_the_one_that_sqs_documents() {
    let (_sqs, client) = start().await;
    let number = MessageAttributeValue::builder().data_type("Number.cents");
    let bytes = MessageAttributeValue::builder().data_type("Binary");
    let sent = client
        .send_message()
        .queue_url(QUEUE)
        .message_body("x")
        .message_attributes("b", number.string_value("12").build().unwrap())
        .message_attributes("c", bytes.binary_value(Blob::new([1, 2])).build().unwrap())
        .message_attributes("a", text("acme"))
        .send()
        .await
        .unwrap();
    // Sorted by name. Each length takes four bytes, and the kind of value one.
    let digested = b"\0\0\0\x01a\0\0\0\x06String\x01\0\0\0\x04acme\
        \0\0\0\x01b\0\0\0\x0cNumber.cents\x01\0\0\0\x0212\
        \0\0\0\x01c\0\0\0\x06Binary\x02\0\0\0\x02\x01\x02";
    let digest = format!("{:x}", md5::compute(digested));
    assert_eq!(sent.md5_of_message_attributes(), Some(digest.as_str()));
}

#[tokio::test]
async fn only_the_attributes_that_are_asked_for_come_with_a_message() {
    let (_sqs, client) = start().await;
    for wanted in [
        &[][..],
        &["tenant"],
        &["order.*"],
        &[".*"],
        &["order.id", "no"],
    ] {
        client
            .send_message()
            .queue_url(QUEUE)
            .message_body("x")
            .message_attributes("tenant", text("acme"))
            .message_attributes("order.id", text("o-1"))
            .message_attributes("order.day", text("monday"))
            .send()
            .await
            .unwrap();
        let mut request = client.receive_message().queue_url(QUEUE);
        for name in wanted {
            request = request.message_attribute_names(*name);
        }
        let message = request.send().await.unwrap().messages.unwrap().remove(0);
        assert_eq!(message.attributes(), None);
        let mut names: Vec<_> = message.message_attributes().into_iter().flatten().collect();
        names.sort_by_key(|(name, _)| *name);
        let names: Vec<_> = names.into_iter().map(|(name, _)| name.as_str()).collect();
        let expected = match wanted {
            [] => &[][..],
            ["tenant"] => &["tenant"],
            ["order.*"] => &["order.day", "order.id"],
            [".*"] => &["order.day", "order.id", "tenant"],
            _ => &["order.id"],
        };
        assert_eq!(names, expected, "{wanted:?}");
    }
}

#[tokio::test]
async fn a_batch_succeeds_and_fails_entry_by_entry() {
    let (_sqs, client) = start().await;
    let entry = |id: &str, body: &str| {
        let entry = SendMessageBatchRequestEntry::builder().id(id);
        entry.message_body(body).build().unwrap()
    };
    let sent = client
        .send_message_batch()
        .queue_url(QUEUE)
        .entries(entry("a", "one"))
        .entries(entry("b", "\u{1}"))
        .entries(entry("c", "three"))
        .send()
        .await
        .unwrap();
    let ids: Vec<_> = sent.successful().iter().map(|one| one.id()).collect();
    assert_eq!(ids, ["a", "c"]);
    let [failed] = sent.failed() else {
        panic!("{sent:?}")
    };
    assert_eq!(
        (failed.id(), failed.code(), failed.sender_fault()),
        ("b", "InvalidMessageContents", true)
    );

    let received = receive(&client, QUEUE).await;
    assert_eq!(bodies(&received), ["one", "three"]);
    let change = |id: &str, handle: &str| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id);
        let entry = entry.receipt_handle(handle).visibility_timeout(60);
        entry.build().unwrap()
    };
    let handles: Vec<_> = received
        .iter()
        .map(|one| one.receipt_handle().unwrap())
        .collect();
    let changed = client
        .change_message_visibility_batch()
        .queue_url(QUEUE)
        .entries(change("a", handles[0]))
        .entries(change("b", "garbage"))
        .send()
        .await
        .unwrap();
    assert_eq!(changed.successful()[0].id(), "a");
    assert_eq!(changed.failed()[0].code(), "ReceiptHandleIsInvalid");

    let delete = |id: &str, handle: &str| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(id);
        entry.receipt_handle(handle).build().unwrap()
    };
    let deleted = client
        .delete_message_batch()
        .queue_url(QUEUE)
        .entries(delete("a", handles[0]))
        .entries(delete("b", handles[1]))
        .entries(delete("c", "garbage"))
        .send()
        .await
        .unwrap();
    assert_eq!(deleted.successful().len(), 2);
    assert_eq!(deleted.failed()[0].code(), "ReceiptHandleIsInvalid");
}

#[tokio::test]
async fn a_batch_that_is_none_is_refused_as_a_whole() {
    let (sqs, client) = start().await;
    let entry = |id: &str, body: &str| {
        let entry = SendMessageBatchRequestEntry::builder().id(id);
        entry.message_body(body).build().unwrap()
    };
    let half = "x".repeat(MIB / 2 + 1);
    let eleven: Vec<_> = (0..11).map(|id| entry(&id.to_string(), "x")).collect();
    for (entries, code) in [
        (vec![], "EmptyBatchRequest"),
        (eleven, "TooManyEntriesInBatchRequest"),
        (
            vec![entry("a", "x"), entry("a", "y")],
            "BatchEntryIdsNotDistinct",
        ),
        (vec![entry("a b", "x")], "InvalidBatchEntryId"),
        (
            vec![entry("a", &half), entry("b", &half)],
            "BatchRequestTooLong",
        ),
    ] {
        let request = client.send_message_batch().queue_url(QUEUE);
        let refused = refused!(request.set_entries(Some(entries)));
        assert_eq!(refused, format!("AWS.SimpleQueueService.{code}"));
    }
    assert_eq!(sqs.queues().len(QUEUE).unwrap(), 0);
}

#[tokio::test]
async fn a_message_is_a_mebibyte_at_most_and_its_attributes_count() {
    let (_sqs, client) = start().await;
    let largest = "x".repeat(MIB);
    send(&client, QUEUE, &largest).await;
    let request = client.send_message().queue_url(QUEUE).message_body(largest);
    let refused = refused!(request.message_attributes("a", text("b")));
    assert_eq!(refused, "InvalidParameterValue");
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let (sqs, client) = start().await;
    let to = |queue: &str| client.send_message().queue_url(queue).message_body("x");
    let strange = MessageAttributeValue::builder().data_type("Strange");
    let no_value = MessageAttributeValue::builder().data_type("String");
    let no_number = MessageAttributeValue::builder().data_type("Number");
    let no_number = no_number.string_value("many").build().unwrap();
    let eleven = (0..11).map(|n| (format!("a{n}"), text("x"))).collect();
    for (request, code) in [
        (to("nowhere"), "AWS.SimpleQueueService.NonExistentQueue"),
        (to(QUEUE).message_body(""), "MissingParameter"),
        (to(QUEUE).message_body("\u{fffe}"), "InvalidMessageContents"),
        (to(QUEUE).delay_seconds(901), "InvalidParameterValue"),
        (to(QUEUE).delay_seconds(-1), "InvalidParameterValue"),
        (
            to(QUEUE).message_deduplication_id("d"),
            "InvalidParameterValue",
        ),
        (to(QUEUE).message_group_id("a b"), "InvalidParameterValue"),
        (
            to(QUEUE).message_attributes("a", strange.build().unwrap()),
            "InvalidParameterValue",
        ),
        (
            to(QUEUE).message_attributes("a", no_value.build().unwrap()),
            "InvalidParameterValue",
        ),
        (
            to(QUEUE).message_attributes("a", no_number),
            "InvalidParameterValue",
        ),
        (
            to(QUEUE).message_attributes("aws.a", text("x")),
            "InvalidParameterValue",
        ),
        (
            to(QUEUE).message_attributes("a..b", text("x")),
            "InvalidParameterValue",
        ),
        (
            to(QUEUE).set_message_attributes(Some(eleven)),
            "InvalidParameterValue",
        ),
        (to(FIFO).message_deduplication_id("d"), "MissingParameter"),
        (to(FIFO).message_group_id("g"), "InvalidParameterValue"),
        (
            to(BY_CONTENT).message_group_id("g").delay_seconds(1),
            "InvalidParameterValue",
        ),
    ] {
        let said = format!("{:?}", request.as_input());
        assert_eq!(refused!(request), code, "{said}");
    }
    assert_eq!(sqs.queues().len(QUEUE).unwrap(), 0);
    assert_eq!(sqs.queues().len(FIFO).unwrap(), 0);
}

#[tokio::test]
async fn a_fifo_queue_numbers_its_messages_and_knows_a_duplicate() {
    let (_sqs, client) = start().await;
    let send = |queue: &str, body: &str, id: Option<&str>| {
        let request = client.send_message().queue_url(queue).message_body(body);
        let id = id.map(str::to_owned);
        let request = request.message_group_id("a");
        request.set_message_deduplication_id(id).send()
    };
    let first = send(FIFO, "1", Some("d-1")).await.unwrap();
    let second = send(FIFO, "2", Some("d-2")).await.unwrap();
    let duplicate = send(FIFO, "3", Some("d-1")).await.unwrap();
    assert!(first.sequence_number() < second.sequence_number());
    assert_eq!(duplicate.sequence_number(), first.sequence_number());
    assert_eq!(duplicate.message_id(), first.message_id());
    let received = receive(&client, FIFO).await;
    assert_eq!(bodies(&received), ["1", "2"]);
    let attributes = received[1].attributes().unwrap();
    assert_eq!(
        attributes.get(&MessageSystemAttributeName::SequenceNumber),
        second.sequence_number.as_ref()
    );

    for body in ["hello", "other", "hello"] {
        send(BY_CONTENT, body, None).await.unwrap();
    }
    let received = receive(&client, BY_CONTENT).await;
    assert_eq!(bodies(&received), ["hello", "other"]);
    let id =
        &received[0].attributes().unwrap()[&MessageSystemAttributeName::MessageDeduplicationId];
    assert_eq!(
        id,
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    );
}

#[tokio::test]
async fn who_waits_for_a_message_is_woken_by_it() {
    let (sqs, client) = start().await;
    let waiting = client
        .receive_message()
        .queue_url(sqs.url(QUEUE))
        .wait_time_seconds(20);
    let both = async { tokio::join!(waiting.send(), send(&client, QUEUE, "hello")) };
    let (received, ()) = timeout(BEFORE_IT_GIVES_UP, both).await.unwrap();
    assert_eq!(bodies(received.unwrap().messages()), ["hello"]);
}

#[tokio::test]
async fn who_waits_for_a_message_is_woken_when_one_becomes_visible() {
    let (sqs, client) = start().await;
    let delayed = NewMessage {
        delay: Some(Duration::from_millis(200)),
        ..NewMessage::new("m-1", "later")
    };
    sqs.queues()
        .send(QUEUE, delayed, SystemTime::now())
        .unwrap();
    assert!(receive(&client, QUEUE).await.is_empty());
    let waiting = client
        .receive_message()
        .queue_url(QUEUE)
        .wait_time_seconds(20);
    let received = timeout(BEFORE_IT_GIVES_UP, waiting.send()).await.unwrap();
    assert_eq!(bodies(received.unwrap().messages()), ["later"]);
}

#[tokio::test]
async fn a_queue_tells_how_it_is_set_and_how_many_messages_it_has() {
    let (sqs, client) = start().await;
    for body in ["1", "2", "3"] {
        send(&client, QUEUE, body).await;
    }
    let one = client.receive_message().queue_url(QUEUE);
    one.send().await.unwrap();
    let delayed = client.send_message().queue_url(QUEUE).message_body("4");
    delayed.delay_seconds(900).send().await.unwrap();
    send(&client, SLOW, "5").await;

    let get = async |queue: &str, name| {
        let request = client.get_queue_attributes().queue_url(queue);
        let answer = request.attribute_names(name).send().await.unwrap();
        answer.attributes.unwrap_or_default()
    };
    use QueueAttributeName as Name;
    let all = get(QUEUE, Name::All).await;
    for (name, value) in [
        (Name::ApproximateNumberOfMessages, "2"),
        (Name::ApproximateNumberOfMessagesNotVisible, "1"),
        (Name::ApproximateNumberOfMessagesDelayed, "1"),
        (Name::VisibilityTimeout, "30"),
        (Name::MessageRetentionPeriod, "345600"),
        (Name::MaximumMessageSize, "1048576"),
        (
            Name::QueueArn,
            "arn:aws:sqs:eu-central-1:123456789012:orders",
        ),
        (
            Name::RedrivePolicy,
            r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:123456789012:orders-dead","maxReceiveCount":1}"#,
        ),
    ] {
        assert_eq!(all[&name], value, "{name}");
        assert_eq!(get(QUEUE, name.clone()).await.len(), 1, "{name}");
    }
    assert!(!all.contains_key(&Name::FifoQueue));
    let slow = get(SLOW, Name::ApproximateNumberOfMessagesDelayed).await;
    assert_eq!(slow[&Name::ApproximateNumberOfMessagesDelayed], "1");
    assert!(receive(&client, SLOW).await.is_empty());
    let fifo = get(BY_CONTENT, Name::All).await;
    assert_eq!(fifo[&Name::FifoQueue], "true");
    assert_eq!(fifo[&Name::ContentBasedDeduplication], "true");
    assert_eq!(get(DEAD, Name::RedrivePolicy).await.len(), 0);
    let request = client.get_queue_attributes().queue_url(sqs.url(QUEUE));
    let unknown = request.attribute_names(Name::from("Unknown"));
    assert_eq!(refused!(unknown), "InvalidAttributeName");
}

#[tokio::test]
async fn queues_are_found_by_their_names() {
    let (sqs, client) = start().await;
    let url = client.get_queue_url().queue_name(QUEUE).send().await;
    assert_eq!(url.unwrap().queue_url(), Some(sqs.url(QUEUE).as_str()));
    let missing = client.get_queue_url().queue_name("nowhere").send().await;
    let missing = missing.unwrap_err().into_service_error();
    assert!(missing.is_queue_does_not_exist(), "{missing:?}");

    let pages = client.list_queues().queue_name_prefix("orders");
    let urls: Vec<_> = pages
        .into_paginator()
        .page_size(2)
        .items()
        .send()
        .collect::<Result<_, _>>()
        .await
        .unwrap();
    assert_eq!(urls, [QUEUE, DEAD, FIFO].map(|name| sqs.url(name)));
    let sources = client.list_dead_letter_source_queues().queue_url(DEAD);
    assert_eq!(sources.send().await.unwrap().queue_urls(), [sqs.url(QUEUE)]);
}

#[tokio::test]
async fn a_receipt_of_a_message_lets_it_be_hidden_shown_and_deleted() {
    let (_sqs, client) = start().await;
    send(&client, DEAD, "hello").await;
    let hidden = client
        .receive_message()
        .queue_url(DEAD)
        .visibility_timeout(0);
    hidden.send().await.unwrap();
    let received = receive(&client, DEAD).await.remove(0);
    let handle = received.receipt_handle().unwrap();
    assert!(receive(&client, DEAD).await.is_empty());
    let change = |seconds| {
        let request = client.change_message_visibility().queue_url(DEAD);
        request.receipt_handle(handle).visibility_timeout(seconds)
    };
    assert_eq!(refused!(change(43_201)), "InvalidParameterValue");
    change(0).send().await.unwrap();
    assert_eq!(
        refused!(change(0)),
        "AWS.SimpleQueueService.MessageNotInflight"
    );
    let again = receive(&client, DEAD).await.remove(0);
    let count = MessageSystemAttributeName::ApproximateReceiveCount;
    assert_eq!(again.attributes().unwrap()[&count], "3");
    let delete = client.delete_message().queue_url(DEAD);
    let handle = again.receipt_handle().unwrap();
    delete.receipt_handle(handle).send().await.unwrap();
    let delete = client.delete_message().queue_url(DEAD);
    assert_eq!(
        refused!(delete.receipt_handle("garbage")),
        "ReceiptHandleIsInvalid"
    );

    send(&client, DEAD, "hello").await;
    let purge = client.purge_queue().queue_url(DEAD);
    purge.send().await.unwrap();
    assert!(receive(&client, DEAD).await.is_empty());
}

/// A queue whose messages are in the dead-letter queue.
async fn with_dead(bodies: &[&str]) -> (LocalSqs, Client) {
    let (sqs, client) = start().await;
    for body in bodies {
        send(&client, QUEUE, body).await;
        let request = client.receive_message().queue_url(QUEUE);
        request.visibility_timeout(0).send().await.unwrap();
    }
    assert!(receive(&client, QUEUE).await.is_empty());
    assert_eq!(sqs.queues().len(DEAD).unwrap(), bodies.len());
    (sqs, client)
}

fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:eu-central-1:123456789012:{queue}")
}

/// The last task's status, how many messages it moved, and why it failed.
async fn last_task(client: &Client) -> (String, i64, Option<String>) {
    let request = client.list_message_move_tasks().source_arn(arn(DEAD));
    let task = request.send().await.unwrap().results.unwrap().remove(0);
    (
        task.status.unwrap(),
        task.approximate_number_of_messages_moved,
        task.failure_reason,
    )
}

#[tokio::test]
async fn a_move_task_takes_dead_letters_back_to_where_they_came_from() {
    let (_sqs, client) = with_dead(&["1", "2"]).await;
    let start = client.start_message_move_task().source_arn(arn(DEAD));
    start.send().await.unwrap();
    let (status, moved, failure) = last_task(&client).await;
    assert_eq!((status.as_str(), moved, failure), ("COMPLETED", 2, None));
    assert!(receive(&client, DEAD).await.is_empty());
    let back = receive(&client, QUEUE).await;
    assert_eq!(bodies(&back), ["1", "2"]);
    let source = MessageSystemAttributeName::DeadLetterQueueSourceArn;
    assert!(!back[0].attributes().unwrap().contains_key(&source));
}

#[tokio::test]
async fn a_move_task_takes_dead_letters_where_it_is_told_to() {
    let (_sqs, client) = with_dead(&["1"]).await;
    let start = client.start_message_move_task().source_arn(arn(DEAD));
    let start = start.destination_arn(arn("another"));
    assert_eq!(refused!(start), "ResourceNotFoundException");
    let start = client.start_message_move_task().source_arn(arn(DEAD));
    let start = start.destination_arn(arn(FIFO));
    assert_eq!(refused!(start), "InvalidParameterValue");
    let start = client.start_message_move_task().source_arn(arn(DEAD));
    let start = start.destination_arn(arn(QUEUE));
    start.send().await.unwrap();
    assert_eq!(bodies(&receive(&client, QUEUE).await), ["1"]);
}

#[tokio::test]
async fn a_move_task_fails_at_a_message_of_unknown_origin() {
    let (_sqs, client) = with_dead(&["1"]).await;
    send(&client, DEAD, "sent here").await;
    let start = client.start_message_move_task().source_arn(arn(DEAD));
    start.send().await.unwrap();
    let failure = Some("CouldNotDetermineMessageSource".to_owned());
    assert_eq!(last_task(&client).await, ("FAILED".to_owned(), 1, failure));
    assert_eq!(bodies(&receive(&client, DEAD).await), ["sent here"]);
}

#[tokio::test]
async fn a_slow_move_task_can_be_watched_and_cancelled() {
    let (sqs, client) = with_dead(&["1", "2", "3"]).await;
    let start = |rate| {
        let request = client.start_message_move_task().source_arn(arn(DEAD));
        request.max_number_of_messages_per_second(rate)
    };
    assert_eq!(refused!(start(501)), "InvalidParameterValue");
    let handle = start(1).send().await.unwrap().task_handle.unwrap();
    assert_eq!(
        refused!(start(1)),
        "AWS.SimpleQueueService.UnsupportedOperation"
    );
    let cancel = |handle: &str| client.cancel_message_move_task().task_handle(handle);
    assert_eq!(refused!(cancel("unknown")), "ResourceNotFoundException");
    cancel(&handle).send().await.unwrap();
    assert_eq!(
        refused!(cancel(&handle)),
        "AWS.SimpleQueueService.UnsupportedOperation"
    );
    assert_eq!(last_task(&client).await.0, "CANCELLED");
    assert!(sqs.queues().len(DEAD).unwrap() >= 2);

    start(500).send().await.unwrap();
    let outer_limit = SystemTime::now() + Duration::from_secs(60);
    while last_task(&client).await.0 == "RUNNING" {
        assert!(SystemTime::now() < outer_limit, "it never ends");
        tokio::task::yield_now().await;
    }
    assert_eq!(last_task(&client).await.0, "COMPLETED");
    assert_eq!(receive(&client, QUEUE).await.len(), 3);
}

#[tokio::test]
async fn only_a_dead_letter_queue_has_move_tasks() {
    let (_sqs, client) = start().await;
    let start = client.start_message_move_task().source_arn(arn(QUEUE));
    assert_eq!(refused!(start), "InvalidParameterValue");
    let start = client.start_message_move_task().source_arn(arn("nowhere"));
    assert_eq!(refused!(start), "ResourceNotFoundException");
}

#[tokio::test]
async fn a_port_can_be_chosen_and_is_had_by_one() {
    let sqs = LocalSqs::start(queues()).await.unwrap();
    let port = sqs.endpoint().rsplit(':').next().unwrap().parse().unwrap();
    assert!(LocalSqs::start_on(port, queues()).await.is_err());
}
