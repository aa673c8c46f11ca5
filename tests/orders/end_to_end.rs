//! The real function binary, end to end: real process, real Runtime API, real HTTP to DynamoDB.

use std::time::Duration;

use crate::support::{Answer, Bench, TIMEOUT, body, event, order, run};
use sqs_once_local::Event;

#[tokio::test]
async fn the_first_run_charges_every_order_and_the_second_none() {
    let bench = Bench::new().await;
    let orders = event("orders");
    let first = bench.run(&orders).await;
    assert!(first.failures.is_empty());
    assert_eq!(first.count("processed"), orders.message_ids().len());

    let second = bench.run(&orders).await;
    assert!(second.failures.is_empty());
    assert_eq!(second.count("duplicate"), orders.message_ids().len());

    bench.assert_charged_once(orders.message_ids().len());
    let items = bench.items();
    assert!(items.iter().all(|item| item["status"]["S"] == "COMPLETED"));
}

#[tokio::test]
async fn a_crash_between_effect_and_completion_is_recovered_after_the_lease() {
    let bench = Bench::new().await;
    let order = order("o-1");
    let launch = || {
        bench
            .launch()
            .env("SQS_ONCE_LEASE_MARGIN", "1s")
            .env("SQS_ONCE_DEADLINE_MARGIN", "100ms")
    };

    bench.payments.hold("o-1");
    let function = launch().start().await.unwrap();
    // Long enough for the next process to find the lease alive, on a busy machine too.
    let deadline = Duration::from_secs(5);
    tokio::select! {
        answer = function.invoke(order.payload(), deadline) => panic!("answered: {answer:?}"),
        () = bench.payments.charged() => drop(function),
    }

    // Before the lease has lapsed nobody may run it, and nobody may acknowledge it.
    bench.payments.answer("o-1", Answer::Status(503));
    let early = run(launch().start().await.unwrap(), &order).await;
    assert_eq!(early.failures, order.message_ids());
    assert_eq!(early.count("in_progress"), 1);

    bench.payments.answer("o-1", Answer::Status(201));
    let recovered = tokio::time::timeout(TIMEOUT, async {
        loop {
            let again = run(launch().start().await.unwrap(), &order).await;
            if again.failures.is_empty() {
                break;
            }
        }
    });
    recovered.await.expect("the lease must lapse");
    assert_eq!(bench.items()[0]["status"]["S"], "COMPLETED");
}

#[tokio::test]
async fn records_that_cannot_be_charged_fail_alone_and_each_other_order_is_charged_once() {
    for (sample, terminal, processed, duplicate) in [
        ("poison-body", 2, 3, 0),
        ("duplicate-in-batch", 0, 2, 1),
        ("fifo-groups", 0, 6, 0),
        ("missing-key", 2, 1, 0),
        ("sns-envelope", 2, 0, 0),
        ("empty-batch", 0, 0, 0),
    ] {
        let bench = Bench::new().await;
        let event = event(sample);
        let result = bench.run(&event).await;
        assert_eq!(event.message_ids().len(), terminal + processed + duplicate);
        assert_eq!(result.count("terminal"), terminal, "{sample}");
        assert_eq!(result.failures.len(), terminal, "{sample}");
        assert_eq!(result.count("processed"), processed, "{sample}");
        assert_eq!(result.count("duplicate"), duplicate, "{sample}");
        assert_eq!(bench.items().len(), processed, "{sample}");
        bench.assert_charged_once(processed);
        if sample == "sns-envelope" {
            let reason = result.reason(&event.message_ids()[0]);
            assert!(reason.contains("missing field"), "{reason}");
        }
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_answered_record_by_record_fails_as_a_whole() {
    let bench = Bench::new().await;
    let function = bench.launch().start().await.unwrap();
    for (event, problem) in [
        (r#"{"detail": {}}"#, "Records"),
        (r#"{"Records": [{"body": "{}"}]}"#, "messageId"),
        ("[]", "a bare array of records"),
    ] {
        let refused = function.invoke(event, TIMEOUT).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(problem), "{event}: {refused}");
    }
    let answer = function.invoke(order("o-1").payload(), TIMEOUT).await;
    answer.expect("it goes on afterwards");
}

#[tokio::test]
async fn an_event_of_six_megabytes_runs() {
    let bench = Bench::new().await;
    let bodies = (0..6).map(|at| {
        let mut body = body(&format!("o-{at}"));
        body["note"] = "x".repeat(1024 * 1024 - 200).into();
        body.to_string()
    });
    let bodies: Vec<_> = bodies.collect();
    let big = Event::parse(&bodies.join("\n"), "orders").unwrap();
    let result = bench.run(&big).await;
    assert_eq!(result.count("processed"), 6);
    bench.assert_charged_once(6);
}
