//! The real function binary, end to end: real process, real Runtime API, real HTTP to DynamoDB.

use std::time::Duration;

use crate::support::{Answer, Bench, TIMEOUT, event, order, run};
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

    let charges = bench.payments.charges();
    assert_eq!(charges.len(), orders.message_ids().len());
    assert!(charges.values().all(|tokens| tokens.len() == 1));
    assert!(
        bench
            .items()
            .iter()
            .all(|item| item["status"]["S"] == "COMPLETED")
    );
}

#[tokio::test]
async fn a_crash_between_effect_and_completion_is_recovered_after_the_lease() {
    let bench = Bench::new().await;
    let order = order("o-1");
    let launch = || {
        bench
            .launch()
            .env("SQS_ONCE_LEASE_MARGIN", "100ms")
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
        while !run(launch().start().await.unwrap(), &order)
            .await
            .failures
            .is_empty()
        {}
    });
    recovered.await.expect("the lease must lapse");
    assert_eq!(bench.items()[0]["status"]["S"], "COMPLETED");
}

#[tokio::test]
async fn a_repeated_charge_carries_the_token_of_the_first() {
    let bench = Bench::new().await;
    let order = order("o-1");
    bench.payments.hold("o-1");
    let short = bench.launch().env("SQS_ONCE_LEASE_MARGIN", "0s");
    let function = short.start().await.unwrap();
    let cancelled = function
        .invoke(order.payload(), Duration::from_secs(4))
        .await;
    assert!(
        cancelled.is_ok(),
        "the answer goes out before the deadline: {cancelled:?}"
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
async fn poison_records_fail_alone_and_the_good_ones_are_charged() {
    let bench = Bench::new().await;
    let poison = event("poison-body");
    let result = bench.run(&poison).await;
    assert_eq!(result.count("terminal"), 2);
    assert_eq!(result.failures.len(), 2);
    assert_eq!(result.count("processed"), poison.message_ids().len() - 2);
    assert_eq!(
        bench.payments.charges().len(),
        poison.message_ids().len() - 2
    );
}

#[tokio::test]
async fn the_same_order_twice_in_a_batch_is_charged_once() {
    let bench = Bench::new().await;
    let result = bench.run(&event("duplicate-in-batch")).await;
    assert!(result.failures.is_empty());
    assert!(result.count("duplicate") > 0);
    let charges = bench.payments.charges();
    assert_eq!(charges.len(), result.count("processed"));
    assert!(charges.values().all(|tokens| tokens.len() == 1));
}

#[tokio::test]
async fn an_order_without_a_key_is_terminal_and_never_charged() {
    let bench = Bench::new().await;
    let result = bench.run(&event("missing-key")).await;
    assert_eq!(result.count("terminal"), 2);
    assert_eq!(bench.payments.charges().len(), result.count("processed"));
    assert_eq!(bench.items().len(), result.count("processed"));
}

#[tokio::test]
async fn an_envelope_that_is_not_asked_for_is_terminal_with_its_reason() {
    let bench = Bench::new().await;
    let enveloped = event("sns-envelope");
    let result = bench.run(&enveloped).await;
    assert_eq!(result.failures, enveloped.message_ids());
    assert!(
        result
            .reason(&enveloped.message_ids()[0])
            .contains("missing field")
    );
}

#[tokio::test]
async fn a_failure_in_a_fifo_group_returns_the_rest_of_that_group_only() {
    let bench = Bench::new().await;
    let groups = event("fifo-groups");
    let document: serde_json::Value = serde_json::from_slice(&groups.payload()).unwrap();
    let records = document["Records"].as_array().unwrap();
    let group = |record: &serde_json::Value| record["attributes"]["MessageGroupId"].clone();
    let first = &records[0];
    let body: serde_json::Value = serde_json::from_str(first["body"].as_str().unwrap()).unwrap();
    bench
        .payments
        .answer(body["order_id"].as_str().unwrap(), Answer::Status(503));

    let result = bench.run(&groups).await;
    let same_group = records
        .iter()
        .filter(|record| group(record) == group(first));
    let expected: Vec<_> = same_group
        .map(|record| record["messageId"].as_str().unwrap())
        .collect();
    assert!(
        expected.len() > 1,
        "the group needs records that come after the first"
    );
    assert_eq!(result.failures, expected);
}

#[tokio::test]
async fn an_empty_batch_is_answered_with_an_empty_list() {
    let bench = Bench::new().await;
    assert!(bench.run(&event("empty-batch")).await.failures.is_empty());
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
    let charges = bench.payments.charges();
    assert_eq!(charges.len(), 10);
    assert!(charges.values().all(|tokens| tokens.len() == 1));
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
        ("[]", "not an SQS event"),
    ] {
        let refused = function
            .invoke(event, TIMEOUT)
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains(problem), "{event}: {refused}");
    }
    let order: Event = order("o-1");
    assert!(
        function.invoke(order.payload(), TIMEOUT).await.is_ok(),
        "it goes on afterwards"
    );
}

#[tokio::test]
async fn an_event_of_six_megabytes_runs() {
    let bench = Bench::new().await;
    let padding = "x".repeat(1024 * 1024 - 200);
    let bodies: Vec<_> = (0..6)
        .map(|at| {
            format!(
                r#"{{"order_id":"o-{at}","customer_id":"c","amount_cents":1,"currency":"EUR","note":"{padding}"}}"#
            )
        })
        .collect();
    let big = Event::parse(&bodies.join("\n"), "orders").unwrap();
    let result = bench.run(&big).await;
    assert_eq!(result.count("processed"), 6);
    assert_eq!(bench.payments.charges().len(), 6);
}
