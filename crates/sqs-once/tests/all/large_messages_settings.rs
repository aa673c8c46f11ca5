//! Settings of messages whose body is in S3: the objects of each queue.

use sqs_once::MemoryStore;
use sqs_once::large_messages::LargeMessages;
use sqs_once::testing::{Bench, Event, Record};

use crate::large_messages::{BUCKET, QUEUE, REFUNDS, noting, pointer, settings, with_order};
use crate::support::process::passes;
use crate::support::s3::S3;
use crate::support::{Notes, assert_contains};
const VARIABLE: &str = "SQS_ONCE_LARGE_MESSAGES";

/// A variable applies to all tests of a process, so the test runs other processes.
#[test]
fn the_variable_names_the_objects_of_each_queue() {
    let this = "in_a_process_with_the_variable_the_consumer_has_its_queues";
    let both = format!("{QUEUE}=large-messages/orders/*,\n {REFUNDS}=large-messages/refunds/*");
    let nested = format!("{QUEUE}=large-messages/*,{REFUNDS}=large-messages/refunds/*");
    for text in [
        &both,
        &nested,
        "large-messages",
        "orders=large-messages/orders/*",
    ] {
        passes(module_path!(), this, &[(VARIABLE, text)]);
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_process_with_the_variable_the_consumer_has_its_queues() {
    let Ok(variable) = std::env::var(VARIABLE) else {
        return;
    };
    let s3 = with_order("refunds/1");
    let from_env = LargeMessages::from_env().client(s3.client());
    if !variable.contains("large-messages/orders/*") || !variable.contains(REFUNDS) {
        let why = match variable.contains(REFUNDS) {
            true => format!("{VARIABLE} has the objects \"large-messages/*\" for the queue"),
            false => format!("{VARIABLE} has the entry {variable:?}: expected the ARN of a queue"),
        };
        return assert_contains!(refusal(from_env).await, &why);
    }
    let bench = Bench::new(noting(from_env, &Notes::default()));
    let event = Event::new([Record::text(pointer(BUCKET, "refunds/1"))]);
    bench.run(&event).await.assert_terminal("m-1");
    let of_refunds = Event::from_json(event.as_json().replace(QUEUE, REFUNDS));
    bench.run(of_refunds).await.assert_processed("m-1");
}

async fn start(settings: LargeMessages) -> Result<(), String> {
    let consumer = noting(settings, &Notes::default()).store(MemoryStore::new());
    consumer.init().await.map_err(|error| error.to_string())
}

async fn refusal(settings: LargeMessages) -> String {
    start(settings).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_keep_the_function_from_starting() {
    let s3 = S3::default();
    let from_env = LargeMessages::from_env();
    let unset = "SQS_ONCE_LARGE_MESSAGES is not set";
    for (settings, why) in [
        (settings(&s3).max_size(0), "`max_size` is 0"),
        (from_env.clone().client(s3.client()), unset),
        (from_env.and_queue(QUEUE, "large-messages/*"), unset),
    ] {
        assert_contains!(refusal(settings).await, why);
    }
    let topic = "arn:aws:sns:eu-central-1:123456789012:orders";
    for (queue, objects) in [
        ("orders", "large-messages/*"),
        ("arn:aws:sqs:eu-central-1:123456789012:", "large-messages/*"),
        (topic, "large-messages/*"),
        (QUEUE, ""),
        (QUEUE, "large-messages"),
        (QUEUE, "large-messages/orders/"),
        (QUEUE, "large-messages/orders*"),
        (QUEUE, "large-messages/*/orders/*"),
        (QUEUE, "large-messages/a/../*"),
        (QUEUE, "large messages/*"),
        (QUEUE, "/orders/*"),
        (QUEUE, "arn:aws:s3:::large-messages/*"),
    ] {
        let settings = LargeMessages::for_queue(queue, objects).client(s3.client());
        let why = format!("the setting `large_messages` has the objects {objects:?}");
        assert_contains!(refusal(settings).await, &why);
    }
    let point = "arn:aws:s3:eu-central-1:123456789012:accesspoint/orders/orders/*";
    let settings = LargeMessages::for_queue(QUEUE, point);
    start(settings.client(s3.client())).await.unwrap();
}

#[tokio::test]
async fn a_queue_whose_prefix_contains_anothers_keeps_the_function_from_starting() {
    let s3 = S3::default();
    let of_two = |one: (&str, &str), other: (&str, &str)| {
        let settings = LargeMessages::for_queue(one.0, one.1).and_queue(other.0, other.1);
        settings.client(s3.client())
    };
    for (outer, inner) in [
        ("acme/*", "acme/refunds/*"),
        ("acme/orders/*", "acme/orders/refunds/*"),
    ] {
        for [of_outer, of_inner] in [[QUEUE, REFUNDS], [REFUNDS, QUEUE]] {
            let (outer, inner) = ((of_outer, outer), (of_inner, inner));
            let why = format!(
                "the setting `large_messages` has the objects {:?} for the queue {:?}, which contain {:?} of the queue {:?}",
                outer.1, outer.0, inner.1, inner.0
            );
            for settings in [of_two(outer, inner), of_two(inner, outer)] {
                let error = refusal(settings).await;
                assert_contains!(error, &why, "expected a prefix for each queue");
            }
        }
    }
    for (orders, refunds) in [
        ("acme/orders/*", "acme/refunds/*"),
        ("acme/orders/*", "acme/orders-2/*"),
        ("acme/*", "acme/*"),
        ("acme/*", "acme-2/refunds/*"),
    ] {
        let settings = of_two((QUEUE, orders), (REFUNDS, refunds));
        start(settings).await.unwrap();
    }
    let settings = of_two((QUEUE, "acme/*"), (QUEUE, "acme/orders/*"));
    start(settings).await.unwrap();
}
