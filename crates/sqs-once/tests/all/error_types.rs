//! Error types that choose what happens to the message, in each way by which an error reaches the consumer.

use std::error::Error;
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};
use sqs_once::body::AsyncDecode;
use sqs_once::consumer::{Named, OfMessages, Runnable};
use sqs_once::extract::{FromRecord, Message, RecordEnd, RecordParts};
use sqs_once::handler::{Done, ErrorDisposition, Next};
use sqs_once::key::{KeyError, KeyExtractor};
use sqs_once::once::RunError;
use sqs_once::policy::{Dependency, Disposition, UnknownOutcome};
use sqs_once::store::MemoryStore;
use sqs_once::telemetry::Outcome::{Failed, Processed, Terminal};
use sqs_once::testing::{Answer, Bench, Event, Record};
use sqs_once::{Batch, BatchOutcome, BusinessKey, Handler, HandlerError, Idempotency, Router};

use crate::support::assert_contains;

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
    Event::new(["declined", "busy", "other", "down", "well"].map(ending))
}

fn no_answer() -> Event {
    Event::new([ending("no answer")])
}

fn ending(ends: &str) -> Record {
    Record::json(&json!({ "ends": ends }))
}

fn key(order: &Value) -> String {
    order["ends"].as_str().unwrap_or_default().to_owned()
}

/// Each end that a type can choose reached the consumer.
async fn assert_chosen(way: &str, runs: impl Runnable) {
    let answer = Bench::new(runs).run(event()).await;
    let expected = [Terminal, Failed, Failed, Failed, Processed];
    assert_eq!(answer.outcomes(), expected, "{way}");
    assert_eq!(answer.delay("m-2"), Some(HALF_MINUTE), "{way}");
    assert_eq!(answer.delay("m-3"), None, "{way}");
    let reason = answer.reason("m-4").unwrap_or_default();
    assert_contains!(format!("{way}: {reason}"), "unavailable: payments");
}

fn declaring<Kind: Named + OfMessages>(handler: Handler<Kind>) -> Handler<Kind> {
    let handler = handler.namespace("payments").errors::<PayError>();
    handler.depends_on("payments")
}

fn json() -> sqs_once::consumer::Keyed<Value, impl KeyExtractor<Value>> {
    Handler::json::<Value>().key(key)
}

fn pay_for(message: &Message) -> Result<(), HandlerError> {
    let order = serde_json::from_str(message.body().unwrap_or_default())?;
    Ok(pay(&order)?)
}

#[tokio::test(start_paused = true)]
async fn an_error_is_asked_for_its_choice_however_and_from_wherever_it_comes() {
    let question_mark = async |order: Value| -> Result<(), HandlerError> { Ok(pay(&order)?) };
    let own = async |order: Value| pay(&order);
    let dynamic =
        async |order: Value| -> Result<(), Box<dyn Error + Send + Sync>> { Ok(pay(&order)?) };
    let back = async |order: Value| -> Result<(), HandlerError> {
        let paid: anyhow::Result<()> = pay(&order).map_err(anyhow::Error::from);
        paid.map_err(anyhow::Error::reallocate_into_boxed_dyn_error_without_backtrace)?;
        Ok(())
    };
    let boxed =
        async |order: Value| -> Result<(), HandlerError> { Ok(pay(&order).map_err(Box::new)?) };
    let shared = async |order: Value| pay(&order).map_err(Arc::new);
    let done = async |_: Value| {};
    let layer = async |record: RecordParts, next: Next| -> Result<Done, HandlerError> {
        let done = next.run().await?;
        pay_for(record.message())?;
        Ok(done)
    };
    let hook = async |end: RecordEnd| pay_for(end.message());
    for (way, handler) in [
        ("by `?`", json().call(question_mark)),
        ("as itself", json().call(own)),
        ("as `dyn Error`", json().call(dynamic)),
        ("back from anyhow", json().call(back)),
        ("in a box", json().call(boxed)),
        ("in an arc", json().call(shared)),
        ("of an extractor", json().call(async |_: Value, _: Paid| {})),
        ("of a layer", json().call(done).layer(layer)),
        ("of a decoder", Handler::decode(Paying).key(key).call(done)),
        ("of a hook", json().call(done).on_done(hook)),
    ] {
        assert_chosen(way, declaring(handler)).await;
    }
    let charge = attributes::charge::handler().depends_on("payments");
    assert_chosen("declared by an attribute", charge).await;
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
    for (way, handler) in [
        ("text", json().call(text)),
        ("a cause", json().call(caused)),
        ("anyhow", json().call(anyhow)),
        ("a context", json().call(context)),
    ] {
        let handler = handler.namespace("payments").errors::<PayError>();
        let answer = Bench::new(handler).run(event()).await;
        let expected = [Failed, Failed, Failed, Failed, Processed];
        assert_eq!(answer.outcomes(), expected, "{way}");
        assert_eq!(answer.delay("m-2"), None, "{way}");
    }
}

struct Paid;

impl<S: Sync> FromRecord<S> for Paid {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        pay_for(parts.message()).map(|()| Self)
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

/// A function that extracts keys, and keeps the type of its error.
struct By<F>(F);

impl<F> KeyExtractor<Value> for By<F>
where
    F: Fn(&Value) -> Result<BusinessKey, KeyError> + Send + Sync + 'static,
{
    fn key(&self, order: &Value, _: &Message) -> Result<BusinessKey, KeyError> {
        self.0(order)
    }
}

/// A handler that does nothing, with the keys of this function.
fn keyed_by<F>(keys: F) -> Handler
where
    F: Fn(&Value) -> Result<BusinessKey, KeyError> + Send + Sync + 'static,
{
    let handler = Handler::json::<Value>().key(By(keys));
    handler.call(async |_: Value| {}).namespace("payments")
}

#[tokio::test(start_paused = true)]
async fn a_key_extractors_error_is_terminal_unless_its_type_chooses() {
    let keyed = keyed_by(|order| {
        pay(order).map_err(KeyError::extractor)?;
        BusinessKey::new(&key(order))
    });
    let answer = Bench::new(declaring(keyed)).run(event()).await;
    answer.assert_outcomes([Terminal, Failed, Terminal, Failed, Processed]);
    assert_eq!(answer.delay("m-2"), Some(HALF_MINUTE));
    let unavailable = "unavailable: payments: the key extractor failed";
    // The error's own text may contain the key.
    answer.assert_reason("m-4", unavailable);
    assert_eq!(answer.reason("m-2"), Some("the key extractor failed"));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_batch_handler_is_asked_for_its_choice_alone_and_as_a_whole() {
    let each = async |orders: Batch<Value>| Ok::<_, HandlerError>(pay_each(&orders));
    assert_chosen("of a record", declaring(json().call_batch(each))).await;
    let charge_all = attributes::charge_all::handler().depends_on("payments");
    assert_chosen("declared by an attribute", charge_all).await;
    let whole = async |orders: Batch<Value>| -> Result<BatchOutcome, HandlerError> {
        for order in orders.payloads() {
            pay(order)?;
        }
        Ok(orders.all_succeeded())
    };
    let bench = Bench::new(declaring(json().call_batch(whole)));
    bench.run(event()).await.assert_outcomes([Terminal; 5]);
}

fn pay_each(orders: &Batch<Value>) -> BatchOutcome {
    let mut outcome = orders.outcome();
    for record in orders.records() {
        outcome.ended(record, pay(record.payload()));
    }
    outcome
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
    let ruled = HandlerError::terminal(PayError::Busy);
    for (error, chosen) in [
        (PayError::Declined.into(), Disposition::Terminal),
        (PayError::Busy.into(), Disposition::RetryAfter(HALF_MINUTE)),
        ("other".into(), Disposition::Retry),
        (ruled, Disposition::Terminal),
    ] {
        assert_eq!(disposition(Err(error)).await, chosen);
    }
}

/// The attributes declare the type that their function returns.
mod attributes {
    use super::{Batch, BatchOutcome, PayError, Value, pay, pay_each};

    pub(super) type Paid = Result<(), PayError>;

    #[sqs_once::handler(key = order["ends"].as_str(), namespace = "payments")]
    pub(super) async fn charge(order: Value) -> Paid {
        pay(&order)
    }

    #[sqs_once::batch_handler(key = order["ends"].as_str(), namespace = "payments")]
    pub(super) async fn charge_all(orders: Batch<Value>) -> Result<BatchOutcome, PayError> {
        Ok(pay_each(&orders))
    }
}

#[tokio::test(start_paused = true)]
async fn the_handlers_of_a_router_know_the_types_of_its_defaults_and_their_own() {
    let function = async |order: Value| pay(&order);
    let paying = json().call(function).namespace("payments");
    let defaults = Handler::defaults().errors::<PayError>();
    let routes = Router::by_attribute("type")
        .defaults(defaults.depends_on("payments"))
        .fallback(paying.errors::<Unused>())
        .route("none", json().call(function).namespace("others"));
    assert_chosen("of a route", routes).await;
}

#[derive(Debug, thiserror::Error, ErrorDisposition)]
#[error("unused")]
struct Unused;

/// Ends the first message of an event with this error.
async fn ended(
    end: impl Fn(PayError) -> HandlerError + Clone + Send + Sync + 'static,
    set: impl Fn(Handler) -> Handler,
) -> Answer {
    let function = move |order: Value| ready(pay(&order).map_err(&end));
    let handler = json().call(function).namespace("payments");
    let bench = Bench::new(set(handler.errors::<PayError>()));
    bench.run(event()).await
}

#[tokio::test(start_paused = true)]
async fn the_code_comes_before_the_type_and_the_type_before_the_dependency() {
    let day = Duration::from_hours(24);
    let code = move |error| HandlerError::from(error).into_retry_after(day);
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
    let boxed = |error: PayError| HandlerError::from(Box::new(error));
    let answer = ended(boxed, |it| it.depends_on(all())).await;
    answer.assert_reason("m-3", "unavailable: payments: other");
    // An answer of the service is no outage, whatever the type says.
    let answered = |error: PayError| HandlerError::from(error).into_answered("payments");
    let answer = ended(answered, |it| it.depends_on("payments")).await;
    assert_eq!(answer.reason("m-4"), Some("down"));
    answer.assert_terminal("m-1");
}

#[tokio::test(start_paused = true)]
async fn nothing_hides_that_the_outcome_is_unknown() {
    let code = |end: fn(PayError) -> HandlerError| {
        json().call(move |order: Value| ready(pay(&order).map_err(end)))
    };
    let hides = async |_: RecordParts, next: Next| -> Result<Done, HandlerError> {
        let done = next.run().await;
        done.map_err(|error| HandlerError::retry(error.to_string()))
    };
    let pays = async |record: RecordParts, _: Next| -> Result<Done, HandlerError> {
        pay_for(record.message())?;
        Ok(Done::default())
    };
    let layers = json().call(async |_: Value| {}).layer(hides).layer(pays);
    let wrapped = json().call(async |order: Value| pay(&order).map_err(OrderError::Pay));
    let wrapped = wrapped.errors::<OrderError>();
    let terminal = |error| HandlerError::from(error).into_terminal();
    let unavailable = |error| HandlerError::from(error).into_unavailable("payments");
    let declared = json().call(async |_: Value| {}).errors::<PayError>();
    for (what, handler) in [
        ("no choice in the code", code(HandlerError::from)),
        ("retry", code(HandlerError::retry)),
        ("terminal", code(terminal)),
        ("unavailable", code(unavailable).depends_on("payments")),
        ("an outer layer", layers),
        ("an error that it has caused", wrapped),
        (
            "another handler that declares the type",
            declared.layer(pays),
        ),
    ] {
        let handler = handler.namespace("payments");
        let handler = handler.unknown_outcome(UnknownOutcome::dead_letter());
        let answer = Bench::new(handler).run(no_answer()).await;
        assert_eq!(answer.outcomes(), [Terminal], "{what}");
        let reason = answer.reason("m-1").unwrap_or_default();
        assert_contains!(format!("{what}: {reason}"), "outcome unknown");
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
    let set = |it: Handler| it.layer(layer).depends_on(io.clone());
    let answer = ended(HandlerError::from, set).await;
    let seen = ["Terminal", "RetryAfter(30s)", "Unavailable(\"payments\")"];
    for (message, seen) in ["m-1", "m-2", "m-3"].into_iter().zip(seen) {
        answer.assert_reason(message, seen);
    }
}

#[derive(Debug, thiserror::Error, ErrorDisposition)]
enum OrderError {
    #[error("paying failed")]
    #[disposition(retry)]
    Pay(#[source] PayError),
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

#[tokio::test(start_paused = true)]
async fn a_key_extractors_error_that_panics_when_it_is_dropped_harms_no_other_message() {
    let handler = keyed_by(|order| match order["ends"].as_str() {
        Some("declined") => Err(KeyError::extractor(Fragile(None))),
        Some("busy") => Err(KeyError::extractor(Fragile(Some(Disposition::Retry)))),
        _ => BusinessKey::new(&key(order)),
    });
    let answer = Bench::new(handler.errors::<Fragile>()).run(event()).await;
    answer.assert_outcomes([Terminal, Failed, Processed, Processed, Processed]);
}

#[derive(Debug, thiserror::Error, ErrorDisposition)]
#[error("forgotten")]
#[disposition(retry)]
struct Forgotten;

#[tokio::test(start_paused = true)]
async fn a_bench_fails_for_an_error_whose_type_only_another_handler_declares() {
    let function = async |_: Value| Err::<(), _>(Forgotten);
    let by_key = || keyed_by(|_| Err(KeyError::extractor(Forgotten)));
    let by_function = || json().call(function).namespace("payments");
    for handler in [&by_key as &dyn Fn() -> Handler, &by_function] {
        let declared = Bench::new(handler().errors::<Forgotten>());
        declared.run(no_answer()).await.assert_failed("m-1");
        let undeclared = Bench::new(handler());
        let panics = AssertUnwindSafe(undeclared.run(no_answer())).catch_unwind();
        let said = panics.await.unwrap_err();
        let said = said.downcast::<String>().unwrap();
        assert_contains!(said, "`.errors::<all::error_types::Forgotten>()`");
    }
}
