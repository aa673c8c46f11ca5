//! Error types that choose what happens to the message, in each way by which an error reaches the consumer.

use std::error::Error;
use std::time::Duration;

use serde_json::Value;
use sqs_once::body::AsyncDecode;
use sqs_once::extract::{FromRecord, Message, RecordEnd, RecordParts};
use sqs_once::handler::{Done, ErrorDisposition, Next};
use sqs_once::key::{KeyError, KeyExtractor};
use sqs_once::once::RunError;
use sqs_once::policy::{Dependency, Disposition, UnknownOutcome};
use sqs_once::store::MemoryStore;
use sqs_once::telemetry::Outcome::{Failed, Processed, Terminal};
use sqs_once::testing::{Answer, Bench, Event};
use sqs_once::{
    Batch, BatchOutcome, BusinessKey, Consumer, Handler, HandlerError, Idempotency, ResultExt,
    Router,
};

const HALF_MINUTE: Duration = Duration::from_secs(30);

/// An error of the payment service. The payload of each message names one.
#[derive(Clone, Debug, thiserror::Error, ErrorDisposition)]
pub(crate) enum PayError {
    #[error("declined")]
    #[disposition(terminal)]
    Declined,
    #[error("busy")]
    #[disposition(retry_after = "30s")]
    Busy,
    #[error("down")]
    #[disposition(unavailable = "payments")]
    Down,
    #[error("no answer")]
    #[disposition(outcome_unknown)]
    NoAnswer,
    #[error("other")]
    Other,
}

fn pay(order: &Value) -> Result<(), PayError> {
    Err(match order["ends"].as_str() {
        Some("declined") => PayError::Declined,
        Some("busy") => PayError::Busy,
        Some("down") => PayError::Down,
        Some("no answer") => PayError::NoAnswer,
        Some("other") => PayError::Other,
        _ => return Ok(()),
    })
}

fn event() -> Event {
    let ends = ["declined", "busy", "other", "down", "well"];
    Event::new(ends.map(|ends| serde_json::json!({ "ends": ends })).iter())
}

fn key(order: &Value) -> String {
    order["ends"].as_str().unwrap_or_default().to_owned()
}

/// Each end that a type can choose reached the consumer.
fn assert_chosen(answer: &Answer) {
    answer.assert_outcomes([Terminal, Failed, Failed, Failed, Processed]);
    assert_eq!(answer.delay("m-2"), Some(HALF_MINUTE));
    assert_eq!(answer.delay("m-3"), None);
    answer.assert_reason("m-4", "unavailable: payments");
}

/// A handler that is called for each message, with the declaration.
async fn assert_chosen_by(handler: Handler) {
    let handler = handler
        .namespace("payments")
        .errors::<PayError>()
        .depends_on("payments");
    assert_chosen(&Bench::new(handler).run(event()).await);
}

fn json() -> sqs_once::consumer::Keyed<Value, impl KeyExtractor<Value>> {
    Handler::json::<Value>().key(key)
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_handler_is_asked_for_its_choice_however_it_was_boxed() {
    let question_mark = async |order: Value| -> Result<(), HandlerError> { Ok(pay(&order)?) };
    assert_chosen_by(json().call(question_mark)).await;
    let own = async |order: Value| pay(&order);
    assert_chosen_by(json().call(own)).await;
    let boxed =
        async |order: Value| -> Result<(), Box<dyn Error + Send + Sync>> { Ok(pay(&order)?) };
    assert_chosen_by(json().call(boxed)).await;
    let back = async |order: Value| -> Result<(), HandlerError> {
        let paid: anyhow::Result<()> = pay(&order).map_err(anyhow::Error::from);
        paid.map_err(anyhow::Error::reallocate_into_boxed_dyn_error_without_backtrace)?;
        Ok(())
    };
    assert_chosen_by(json().call(back)).await;
}

#[tokio::test(start_paused = true)]
async fn a_conversion_that_loses_the_type_means_retry() {
    let text = async |order: Value| -> Result<(), HandlerError> {
        Ok(pay(&order).map_err(|error| error.to_string())?)
    };
    let caused = async |order: Value| -> Result<(), HandlerError> {
        Ok(pay(&order).map_err(std::io::Error::other)?)
    };
    let anyhow = async |order: Value| -> Result<(), HandlerError> {
        Ok(pay(&order).map_err(anyhow::Error::from)?)
    };
    let context = async |order: Value| -> Result<(), HandlerError> {
        Ok(anyhow::Context::context(pay(&order), "while paying")?)
    };
    let handlers = [
        json().call(text),
        json().call(caused),
        json().call(anyhow),
        json().call(context),
    ];
    for handler in handlers {
        let handler = handler.namespace("payments").errors::<PayError>();
        let answer = Bench::new(handler).run(event()).await;
        answer.assert_outcomes([Failed, Failed, Failed, Failed, Processed]);
        assert_eq!(answer.delay("m-2"), None);
    }
}

/// An extractor that pays.
struct Paid;

impl<S: Sync> FromRecord<S> for Paid {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        let order: Value = serde_json::from_str(parts.message().body().unwrap_or_default())?;
        Ok(pay(&order).map(|()| Self)?)
    }
}

struct Paying;

impl AsyncDecode<Value> for Paying {
    async fn decode(&self, body: &str, _: &Message) -> Result<Value, HandlerError> {
        let order = serde_json::from_str(body)?;
        pay(&order)?;
        Ok(order)
    }
}

struct PaidKey;

impl KeyExtractor<Value> for PaidKey {
    fn key(&self, order: &Value, _: &Message) -> Result<BusinessKey, KeyError> {
        pay(order).map_err(KeyError::extractor)?;
        BusinessKey::new(&key(order))
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_around_the_handler_is_asked_for_its_choice() {
    let done = async |_: Value| {};
    assert_chosen_by(json().call(async |_: Value, _: Paid| {})).await;
    let layer = async |record: RecordParts, next: Next| -> Result<Done, HandlerError> {
        let done = next.run().await?;
        pay(&serde_json::from_str(
            record.message().body().unwrap_or_default(),
        )?)?;
        Ok(done)
    };
    assert_chosen_by(json().call(done).layer(layer)).await;
    let decoder = Handler::decode(Paying).key(key).call(done);
    assert_chosen_by(decoder).await;
    let hook = async |end: RecordEnd| -> Result<(), HandlerError> {
        let order = serde_json::from_str(end.message().body().unwrap_or_default())?;
        Ok(pay(&order)?)
    };
    assert_chosen_by(json().call(done).on_done(hook)).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_extractors_error_is_terminal_unless_its_type_chooses() {
    let handler = Handler::json::<Value>()
        .key(PaidKey)
        .call(async |_: Value| {})
        .namespace("payments")
        .errors::<PayError>()
        .depends_on("payments");
    let answer = Bench::new(handler).run(event()).await;
    answer.assert_outcomes([Terminal, Failed, Terminal, Failed, Processed]);
    assert_eq!(answer.delay("m-2"), Some(HALF_MINUTE));
    let unavailable = "unavailable: payments: the key extractor failed";
    // The error's own text may contain the key.
    answer.assert_reason("m-4", unavailable);
    assert_eq!(answer.reason("m-2"), Some("the key extractor failed"));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_batch_handler_is_asked_for_its_choice_alone_and_as_a_whole() {
    let each = async |orders: Batch<Value>| -> Result<BatchOutcome, HandlerError> {
        let mut outcome = orders.outcome();
        for record in orders.records() {
            outcome.ended(record, pay(record.payload()));
        }
        Ok(outcome)
    };
    let together = |handler: sqs_once::BatchHandler| {
        let handler = handler.namespace("payments").errors::<PayError>();
        Bench::new(handler.depends_on("payments"))
    };
    let answer = together(json().call_batch(each)).run(event()).await;
    assert_chosen(&answer);
    let whole = async |orders: Batch<Value>| -> Result<BatchOutcome, HandlerError> {
        for order in orders.payloads() {
            pay(order)?;
        }
        Ok(orders.all_succeeded())
    };
    let answer = together(json().call_batch(whole)).run(event()).await;
    answer.assert_outcomes([Terminal; 5]);
}

#[tokio::test]
async fn work_without_messages_tells_what_its_error_chose() {
    let work = Handler::work().namespace("receipts").errors::<PayError>();
    let idempotency = Idempotency::new(work).store(MemoryStore::new());
    let deadline = std::time::SystemTime::now() + Duration::from_secs(60);
    let disposition = async |error: Result<(), HandlerError>| {
        let invocation = idempotency.until(deadline);
        match invocation.run("r-1", || async { error }).await {
            Err(RunError::Work { disposition, .. }) => disposition,
            other => panic!("{other:?}"),
        }
    };
    let declined = Err(PayError::Declined.into());
    assert_eq!(disposition(declined).await, Disposition::Terminal);
    let busy = Disposition::RetryAfter(HALF_MINUTE);
    assert_eq!(disposition(Err(PayError::Busy.into())).await, busy);
    assert_eq!(disposition(Err("other".into())).await, Disposition::Retry);
    let ruled = Err(PayError::Busy).terminal();
    assert_eq!(disposition(ruled).await, Disposition::Terminal);
}

/// The attributes declare the type that their function returns.
mod attributes {
    use super::{Batch, BatchOutcome, PayError, Value, pay};

    pub(super) type Paid = Result<(), PayError>;

    #[sqs_once::handler(key = order["ends"].as_str(), namespace = "payments")]
    pub(super) async fn charge(order: Value) -> Paid {
        pay(&order)
    }

    #[sqs_once::batch_handler(key = order["ends"].as_str(), namespace = "payments")]
    pub(super) async fn charge_all(orders: Batch<Value>) -> Result<BatchOutcome, PayError> {
        let mut outcome = orders.outcome();
        for record in orders.records() {
            outcome.ended(record, pay(record.payload()));
        }
        Ok(outcome)
    }
}

#[tokio::test(start_paused = true)]
async fn an_attribute_declares_the_error_type_that_its_function_returns() {
    use attributes::{charge, charge_all};
    let handler = charge::handler().depends_on("payments");
    assert_chosen(&Bench::new(handler).run(event()).await);
    let handler = charge_all::handler().depends_on("payments");
    assert_chosen(&Bench::new(handler).run(event()).await);
}

#[tokio::test(start_paused = true)]
async fn the_handlers_of_a_router_know_the_types_of_its_defaults_and_their_own() {
    let function = async |order: Value| pay(&order);
    let routes = Router::by_attribute("type")
        .defaults(
            Handler::defaults()
                .errors::<PayError>()
                .depends_on("payments"),
        )
        .fallback(
            json()
                .call(function)
                .namespace("payments")
                .errors::<Unused>(),
        )
        .route("none", json().call(function).namespace("others"));
    let answer = Bench::new(Consumer::new(routes)).run(event()).await;
    assert_chosen(&answer);
}

#[derive(Debug, thiserror::Error, ErrorDisposition)]
#[error("unused")]
struct Unused;

/// Ends the first message of an event with this error.
async fn ended(
    end: impl Fn(PayError) -> HandlerError + Clone + Send + Sync + 'static,
    set: impl Fn(Handler) -> Handler,
) -> Answer {
    let function = move |order: Value| {
        let end = end.clone();
        async move { pay(&order).map_err(end) }
    };
    let handler = json().call(function).namespace("payments");
    Bench::new(set(handler.errors::<PayError>()))
        .run(event())
        .await
}

#[tokio::test(start_paused = true)]
async fn the_code_comes_before_the_type_and_the_type_before_the_dependency() {
    let day = 24 * 3600;
    let code = move |error| HandlerError::from(error).into_retry_after(Duration::from_secs(day));
    let answer = ended(code, |it| it).await;
    answer.assert_outcomes([Failed, Failed, Failed, Failed, Processed]);
    answer.assert_reason("m-1", "declined");
    let retry = |error: PayError| HandlerError::retry(error);
    let answer = ended(retry, |it| it).await;
    assert_eq!(answer.delay("m-2"), None);
    let all = || Dependency::new("payments").unavailable_if(|_: &PayError| true);
    let answer = ended(HandlerError::from, |it| it.depends_on(all())).await;
    answer.assert_outcomes([Terminal, Failed, Failed, Failed, Processed]);
    assert_eq!(answer.reason("m-2"), Some("busy"));
    // The type leaves it to the dependency.
    answer.assert_reason("m-3", "unavailable: payments: other");
}

#[tokio::test(start_paused = true)]
async fn a_choice_in_the_code_does_not_hide_that_the_outcome_is_unknown() {
    let event = no_answer();
    for end in [
        |error: PayError| HandlerError::from(error),
        |error: PayError| HandlerError::retry(error),
        |error: PayError| HandlerError::from(error).into_terminal(),
    ] {
        let function = move |order: Value| async move { pay(&order).map_err(end) };
        let handler = json()
            .call(function)
            .namespace("payments")
            .errors::<PayError>();
        let handler = handler.unknown_outcome(UnknownOutcome::dead_letter());
        let answer = Bench::new(handler).run(&event).await;
        answer
            .assert_terminal("m-1")
            .assert_reason("m-1", "outcome unknown");
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_sees_what_the_type_and_the_dependency_chose() {
    let layer = async |_: RecordParts, next: Next| -> Result<Done, HandlerError> {
        next.run().await.map_err(|error| {
            let seen = format!("{:?}", error.disposition());
            HandlerError::terminal(seen)
        })
    };
    let io =
        Dependency::new("payments").unavailable_if(|it: &PayError| matches!(it, PayError::Other));
    let answer = ended(HandlerError::from, |it| {
        it.layer(layer).depends_on(io.clone())
    })
    .await;
    let seen = ["Terminal", "RetryAfter(30s)", "Unavailable(\"payments\")"];
    for (message, seen) in ["m-1", "m-2", "m-3"].into_iter().zip(seen) {
        answer.assert_reason(message, seen);
    }
}

/// Another error, which has one of the payment service as its cause.
#[derive(Debug, thiserror::Error, ErrorDisposition)]
enum OrderError {
    #[error("paying failed")]
    #[disposition(retry)]
    Pay(#[source] PayError),
}

fn no_answer() -> Event {
    Event::new([&serde_json::json!({ "ends": "no answer" })])
}

#[tokio::test(start_paused = true)]
async fn a_box_an_arc_and_a_cause_of_unknown_outcome_are_seen() {
    let boxed =
        async |order: Value| -> Result<(), HandlerError> { Ok(pay(&order).map_err(Box::new)?) };
    assert_chosen_by(json().call(boxed)).await;
    let shared = async |order: Value| pay(&order).map_err(std::sync::Arc::new);
    assert_chosen_by(json().call(shared)).await;
    let wrapped = async |order: Value| pay(&order).map_err(OrderError::Pay);
    let handler = json().call(wrapped).namespace("payments");
    let handler = handler.errors::<PayError>().errors::<OrderError>();
    let handler = handler.unknown_outcome(UnknownOutcome::dead_letter());
    let answer = Bench::new(handler).run(no_answer()).await;
    answer.assert_reason("m-1", "outcome unknown");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_service_is_no_outage_whatever_the_type_says() {
    let answered = |error: PayError| HandlerError::from(error).into_answered("payments");
    let answer = ended(answered, |it| it.depends_on("payments")).await;
    assert_eq!(answer.reason("m-4"), Some("down"));
    answer.assert_terminal("m-1");
}

#[tokio::test(start_paused = true)]
async fn an_outer_layer_can_not_hide_that_an_inner_one_left_the_outcome_unknown() {
    let hides = async |_: RecordParts, next: Next| -> Result<Done, HandlerError> {
        let done = next.run().await;
        done.map_err(|error| HandlerError::retry(error.to_string()))
    };
    let pays = async |record: RecordParts, _: Next| -> Result<Done, HandlerError> {
        pay(&serde_json::from_str(
            record.message().body().unwrap_or_default(),
        )?)?;
        Ok(Done::default())
    };
    let handler = json().call(async |_: Value| {}).namespace("payments");
    let handler = handler.errors::<PayError>().layer(hides).layer(pays);
    let handler = handler.unknown_outcome(UnknownOutcome::dead_letter());
    let answer = Bench::new(handler).run(no_answer()).await;
    answer
        .assert_terminal("m-1")
        .assert_reason("m-1", "outcome unknown");
}

/// An error that can not even be dropped.
#[derive(Debug, thiserror::Error)]
#[error("fragile")]
struct Fragile(Option<Disposition>);

impl ErrorDisposition for Fragile {
    fn disposition(&self) -> Option<Disposition> {
        self.0.clone()
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

struct FragileKey;

impl KeyExtractor<Value> for FragileKey {
    fn key(&self, order: &Value, _: &Message) -> Result<BusinessKey, KeyError> {
        match order["ends"].as_str() {
            Some("declined") => Err(KeyError::extractor(Fragile(None))),
            Some("busy") => Err(KeyError::extractor(Fragile(Some(Disposition::Retry)))),
            _ => BusinessKey::new(&key(order)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_extractors_error_that_panics_when_it_is_dropped_harms_no_other_message() {
    let handler = Handler::json::<Value>().key(FragileKey);
    let handler = handler.call(async |_: Value| {}).namespace("payments");
    let answer = Bench::new(handler.errors::<Fragile>()).run(event()).await;
    answer.assert_outcomes([Terminal, Failed, Processed, Processed, Processed]);
}

struct ForgottenKey;

impl KeyExtractor<Value> for ForgottenKey {
    fn key(&self, _: &Value, _: &Message) -> Result<BusinessKey, KeyError> {
        Err(KeyError::extractor(ForgottenInKey))
    }
}

#[derive(Debug, thiserror::Error, ErrorDisposition)]
#[error("forgotten")]
#[disposition(retry)]
struct ForgottenInKey;

#[tokio::test(start_paused = true)]
#[should_panic(expected = "`.errors::<all::error_types::ForgottenInKey>()`")]
async fn a_bench_fails_for_a_key_extractors_error_whose_type_only_another_handler_declares() {
    let handler = || {
        Handler::json::<Value>()
            .key(ForgottenKey)
            .call(async |_: Value| {})
    };
    let handler = || handler().namespace("payments");
    let declared = Bench::new(handler().errors::<ForgottenInKey>());
    declared.run(no_answer()).await.assert_failed("m-1");
    Bench::new(handler()).run(no_answer()).await;
}

#[derive(Debug, thiserror::Error, ErrorDisposition)]
#[error("forgotten")]
#[disposition(terminal)]
struct Forgotten;

#[tokio::test(start_paused = true)]
#[should_panic(expected = "`.errors::<all::error_types::Forgotten>()`")]
async fn a_bench_fails_for_an_error_whose_type_only_another_handler_declares() {
    let function = async |_: Value| Err::<(), _>(Forgotten);
    let handler = || json().call(function).namespace("payments");
    let declared = Bench::new(handler().errors::<Forgotten>());
    declared.run(event()).await.assert_terminal("m-1");
    Bench::new(handler()).run(event()).await;
}
