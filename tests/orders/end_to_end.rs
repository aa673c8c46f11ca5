//! The real function binary, end to end: real process, real Runtime API, real HTTP to DynamoDB.

use std::time::Duration;

use crate::support::{Answer, Bench, TIMEOUT, body, event, order, run};
use serde_json::{Value, json};
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
async fn a_repeated_charge_carries_the_token_of_the_first() {
    let bench = Bench::new().await;
    let order = order("o-1");
    bench.payments.hold("o-1");
    let short = bench.launch().env("SQS_ONCE_LEASE_MARGIN", "1s");
    let function = short.start().await.unwrap();
    let cancelled = function.invoke(order.payload(), Duration::from_secs(4));
    let answer = cancelled.await;
    assert!(
        answer.is_ok(),
        "it goes out before the deadline: {answer:?}"
    );
    drop(function);

    // Nothing but its first attempt may have charged until here; now the service answers.
    let tokens = bench.payments.charges()["o-1"].clone();
    assert_eq!(tokens.len(), 1);
    let service = Bench::new().await;
    let again = bench.launch().env("PAYMENTS_URL", &service.payments.url);
    let again = again.start().await.unwrap();
    let recovered = tokio::time::timeout(TIMEOUT, async {
        loop {
            let answer = again.invoke(order.payload(), TIMEOUT).await.unwrap();
            if answer.as_ref() == br#"{"batchItemFailures":[]}"# {
                break;
            }
        }
    });
    recovered.await.expect("the lease must lapse");
    assert_eq!(service.payments.charges()["o-1"], tokens);
}

#[tokio::test]
async fn records_that_cannot_be_charged_fail_alone_and_each_other_order_is_charged_once() {
    for (sample, terminal, processed, duplicate) in [
        ("poison-body", 2, 3, 0),
        ("duplicate-in-batch", 0, 2, 1),
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
async fn a_failure_in_a_fifo_group_returns_the_rest_of_that_group_only() {
    let bench = Bench::new().await;
    let groups = event("fifo-groups");
    let document: Value = serde_json::from_slice(&groups.payload()).unwrap();
    let records = document["Records"].as_array().unwrap();
    let group = |record: &Value| record["attributes"]["MessageGroupId"].clone();
    let first = &records[0];
    let body: Value = serde_json::from_str(first["body"].as_str().unwrap()).unwrap();
    let order = body["order_id"].as_str().unwrap();
    bench.payments.answer(order, Answer::Status(503));

    let result = bench.run(&groups).await;
    let mut expected = records.clone();
    expected.retain(|record| group(record) == group(first));
    assert!(expected.len() > 1, "no record comes after the first");
    let expected: Vec<_> = expected.iter().map(|it| &it["messageId"]).collect();
    assert_eq!(json!(result.failures), json!(expected));
}

#[tokio::test]
async fn the_payments_services_answer_decides_between_retry_and_terminal() {
    let bench = Bench::new().await;
    bench.payments.answer("o-1", Answer::Status(402));
    bench.payments.answer("o-2", Answer::Status(503));
    for (id, outcome, reason) in [("o-1", "terminal", "402"), ("o-2", "failed", "503")] {
        let order = order(id);
        let result = bench.run(&order).await;
        assert_eq!(result.count(outcome), 1, "{result:?}");
        assert_eq!(result.failures, order.message_ids());
        assert!(result.reason(&order.message_ids()[0]).contains(reason));
    }
}

#[tokio::test]
async fn one_process_handles_event_after_event() {
    let bench = Bench::new().await;
    let function = bench.launch().start().await.unwrap();
    for at in 0..20 {
        let order = order(&format!("o-{}", at / 2));
        let answer = function.invoke(order.payload(), TIMEOUT).await.unwrap();
        assert_eq!(answer.as_ref(), br#"{"batchItemFailures":[]}"#);
    }
    bench.assert_charged_once(10);
}

#[tokio::test]
async fn a_record_that_is_broken_as_such_fails_alone() {
    let bench = Bench::new().await;
    let good = order("o-1");
    let mut text = String::from_utf8(good.payload().to_vec()).unwrap();
    let broken = r#"{"messageId":"broken","body":"\ud800","eventSourceARN":"arn:aws:sqs:eu-central-1:123456789012:orders"},"#;
    let at = text.find('[').unwrap() + 1;
    text.insert_str(at, broken);
    let function = bench.launch().start().await.unwrap();
    let answer = function.invoke(text, TIMEOUT).await.unwrap();
    assert_eq!(
        answer.as_ref(),
        br#"{"batchItemFailures":[{"itemIdentifier":"broken"}]}"#
    );
    assert_eq!(bench.payments.charges().len(), 1);
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
