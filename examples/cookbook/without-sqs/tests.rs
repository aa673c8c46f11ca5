use std::time::Duration;

use aws_lambda_events::sns::SnsEvent;
use lambda_runtime::{Context, LambdaEvent};
use sqs_once::Idempotency;
use sqs_once::store::StoreErrorKind;
use sqs_once::testing::{Operation, TestClock, TestStore};

use super::handle;

fn event(message: &str, clock: &TestClock) -> LambdaEvent<SnsEvent> {
    let mut event: SnsEvent = serde_json::from_str(include_str!("event.json")).unwrap();
    if !message.is_empty() {
        event.records[0].sns.message = message.to_owned();
    }
    let mut context = Context::default();
    context.deadline = (clock.now() + Duration::from_secs(30)).as_millis();
    LambdaEvent::new(event, context)
}

fn idempotency(store: &TestStore, clock: &TestClock) -> Idempotency {
    let idempotency = Idempotency::new("customers");
    idempotency.store(store.clone()).clock(clock.clone())
}

#[tokio::test]
async fn a_message_that_comes_twice_registers_its_customer_once() {
    let (store, clock) = (TestStore::default(), TestClock::new());
    let idempotency = idempotency(&store, &clock);
    for _ in 0..2 {
        handle(&idempotency, event("", &clock)).await.unwrap();
    }
    // Another email address for the same customer is not looked at: the work did not run.
    let again = event(r#"{"customer_id": "c-7", "email": ""}"#, &clock);
    handle(&idempotency, again).await.unwrap();
}

#[tokio::test]
async fn a_failure_lets_lambda_call_the_function_again() {
    let (store, clock) = (TestStore::default(), TestClock::new());
    let idempotency = idempotency(&store, &clock);
    let no_email = event(r#"{"customer_id": "c-8", "email": ""}"#, &clock);
    handle(&idempotency, no_email).await.unwrap_err();

    store.fail(Operation::Claim, StoreErrorKind::AccessDenied, usize::MAX);
    handle(&idempotency, event("", &clock)).await.unwrap_err();
}
