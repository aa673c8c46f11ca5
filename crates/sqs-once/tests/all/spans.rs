//! The OpenTelemetry spans of a batch.

use crate::no_secrets::watch;
use crate::support::process::passes;
use crate::support::{invoke, pay, values};
use lambda_runtime::Context;
use opentelemetry::Value as Attribute;
use opentelemetry::trace::{SpanId, SpanKind, Status, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::{Value, json};
use sqs_once::handler::HandlerFn;
use sqs_once::store::MemoryStore;
use sqs_once::testing::{Event, Record};
use sqs_once::{Consumer, Router};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;

const PRODUCER: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
const UNSAMPLED: &str =
    "Root=1-5759e988-aaaaaaaaaaaaaaaaaaaaaaaa;Parent=bbbbbbbbbbbbbbbb;Sampled=0";
const FUNCTION: &str = "arn:aws:lambda:eu-central-1:123456789012:function:payments";
const LAMBDA: &str = "Root=1-66666666-cccccccccccccccccccccccc;Parent=dddddddddddddddd;Sampled=1";

/// A user's own subscriber for this thread.
struct Traces {
    exporter: InMemorySpanExporter,
    _guard: DefaultGuard,
}

impl Traces {
    fn watch() -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("test"))
            .with_filter(filter_fn(|metadata| metadata.is_span()));
        Self {
            exporter,
            _guard: watch::beside(layer),
        }
    }

    fn ended(&self) -> Vec<SpanData> {
        self.exporter.get_finished_spans().unwrap()
    }
}

fn handling<X: 'static>(function: impl HandlerFn<Value, (), X>) -> Consumer {
    let handler = values().call(function).namespace("payments");
    Consumer::new(handler).store(MemoryStore::new())
}

fn order(id: &str, does: &str) -> Record {
    Record::json(&json!({ "id": id, "does": does }))
}

async fn handle(consumer: &Consumer, records: impl IntoIterator<Item = Record>) {
    let mut context = Context::default();
    context.request_id = "r-1".to_owned();
    context.invoked_function_arn = FUNCTION.to_owned();
    context.xray_trace_id = Some(LAMBDA.to_owned());
    invoke(consumer, &Event::new(records), context).await;
}

async fn handled(records: impl IntoIterator<Item = Record>) -> Vec<SpanData> {
    spans_of(&handling(pay), records).await
}

async fn spans_of(consumer: &Consumer, records: impl IntoIterator<Item = Record>) -> Vec<SpanData> {
    let traces = Traces::watch();
    handle(consumer, records).await;
    traces.ended()
}

fn attribute<'a>(span: &'a SpanData, name: &str) -> Option<&'a Attribute> {
    let attributes = span.attributes.iter();
    let mut found = attributes.filter(|one| one.key.as_str() == name);
    let first = found.next();
    assert!(found.next().is_none(), "{name} is set twice");
    first.map(|attribute| &attribute.value)
}

fn says(span: &SpanData, name: &str, value: impl Into<Attribute>) {
    let value = value.into();
    assert_eq!(attribute(span, name), Some(&value), "{name}: {span:#?}");
}

fn says_it_is_of_the_queue(span: &SpanData) {
    assert_eq!(span.name, "process orders");
    assert_eq!(span.span_kind, SpanKind::Consumer);
    says(span, "messaging.system", "aws_sqs");
    says(span, "messaging.operation.name", "process");
    says(span, "messaging.operation.type", "process");
    says(span, "messaging.destination.name", "orders");
    says(span, "faas.trigger", "pubsub");
}

fn only<'a>(spans: &'a [SpanData], is_it: impl Fn(&&'a SpanData) -> bool) -> &'a SpanData {
    let mut found = spans.iter().filter(is_it);
    let span = found.next().unwrap();
    assert!(found.next().is_none(), "it has one span");
    span
}

fn batch(spans: &[SpanData]) -> &SpanData {
    let is_batch = |span: &&SpanData| attribute(span, "faas.invocation_id").is_some();
    only(spans, is_batch)
}

fn record<'a>(spans: &'a [SpanData], id: &str) -> &'a SpanData {
    let id = Attribute::from(id.to_owned());
    only(spans, |span| {
        attribute(span, "messaging.message.id") == Some(&id)
    })
}

fn named<'a>(spans: &'a [SpanData], name: &str) -> Vec<&'a SpanData> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn links(span: &SpanData) -> Vec<String> {
    let contexts = span.links.links.iter().map(|link| &link.span_context);
    let ids = contexts.map(|span| format!("{}-{}", span.trace_id(), span.span_id()));
    ids.collect()
}

#[tokio::test]
async fn a_batch_has_the_span_that_the_conventions_ask_for() {
    let spans = handled(vec![order("o-1", "pay"), order("o-2", "fail")]).await;
    let batch = batch(&spans);
    assert_eq!(batch.status, Status::Unset);
    says_it_is_of_the_queue(batch);
    says(batch, "messaging.batch.message_count", 2);
    says(batch, "faas.invocation_id", "r-1");
    says(batch, "faas.coldstart", true);
    says(batch, "cloud.account.id", "123456789012");
    says(batch, "aws.lambda.invoked_arn", FUNCTION);
    says(batch, "sqs_once.batch_item_failures", 1);
    // Without the setting that sends spans to X-Ray, the parent span would not exist.
    assert_eq!(batch.parent_span_id, SpanId::INVALID);
}

#[tokio::test]
async fn every_record_has_a_span_that_says_how_it_ended_and_shows_no_key_and_no_body() {
    let records = [
        order("o-1", "pay").message_id("paid").receive_count(3),
        order("o-1", "pay").message_id("again"),
        order("canary", "fail")
            .message_id("failed")
            .attribute("correlation-id", "c-7"),
        order("o-3", "refuse").message_id("refused"),
        order("o-4", "panic").message_id("panicked"),
        Record::text("no JSON").message_id("unread"),
    ];
    let spans = handled(records).await;
    let parent = batch(&spans).span_context.clone();
    for (id, outcome, words, code) in [
        ("paid", "processed", "", ""),
        ("again", "duplicate", "", ""),
        ("failed", "failed", "declined", "handler-error"),
        ("refused", "terminal", "no such card", "handler-error"),
        ("panicked", "failed", "a handler's own", "handler-panicked"),
        ("unread", "terminal", "JSON", "body-unreadable"),
    ] {
        let span = record(&spans, id);
        assert_eq!(span.parent_span_id, parent.span_id(), "{id}");
        assert_eq!(span.span_context.trace_id(), parent.trace_id());
        says_it_is_of_the_queue(span);
        says(span, "sqs_once.outcome", outcome);
        says(span, "sqs_once.acknowledged", code.is_empty());
        match &span.status {
            Status::Unset if code.is_empty() => assert_eq!(attribute(span, "error.type"), None),
            Status::Error { description } if !code.is_empty() => {
                assert!(description.contains(words), "{id}: {description}");
                says(span, "error.type", outcome);
                says(span, "sqs_once.code", code);
            }
            status => panic!("{id}: {status:?}"),
        }
    }
    let paid = record(&spans, "paid");
    let body = json!({ "id": "o-1", "does": "pay" }).to_string();
    says(paid, "sqs_once.receive_count", 3);
    let size = i64::try_from(body.len()).unwrap();
    says(paid, "messaging.message.body.size", size);
    let failed = record(&spans, "failed");
    says(failed, "messaging.message.conversation_id", "c-7");
    let key = attribute(failed, "sqs_once.key").unwrap();
    assert!(key.as_str().starts_with("payments#"), "{key}");
    assert!(!format!("{spans:?}").contains("canary"));
}

#[tokio::test]
async fn a_record_is_linked_to_the_span_that_sent_it_sampled_or_not() {
    let sent = |id: &str, header: &str| {
        order(id, "pay")
            .message_id(id)
            .system_attribute("AWSTraceHeader", header)
    };
    let records = [
        sent("sampled", PRODUCER),
        sent("unsampled", UNSAMPLED),
        sent("odd", "Root=1-5759e988-bd86;Parent=53995c3f42cd8ad8"),
        order("unsaid", "pay").message_id("unsaid"),
    ];
    let spans = handled(records).await;
    let sampled = "5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8";
    let unsampled = "5759e988aaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb";
    assert_eq!(links(record(&spans, "sampled")), [sampled]);
    assert_eq!(links(record(&spans, "unsampled")), [unsampled]);
    assert_eq!(links(record(&spans, "odd")), [""; 0]);
    assert_eq!(links(record(&spans, "unsaid")), [""; 0]);
    assert_eq!(links(batch(&spans)), [sampled, unsampled]);
}

#[tokio::test]
async fn a_handlers_spans_are_inside_of_its_records_and_requests_to_the_store_inside_of_the_batch()
{
    let calling = order("o-1", "call").message_id("m-1");
    let spans = handled([calling, order("o-2", "pay")]).await;
    let record = record(&spans, "m-1").span_context.span_id();
    let is_of_it = |span: &&&SpanData| span.parent_span_id == record;
    let handlers = named(&spans, "handler");
    let handler = handlers.iter().find(is_of_it).unwrap();
    let call = named(&spans, "call the bank")[0];
    assert_eq!(call.parent_span_id, handler.span_context.span_id());
    let parent = batch(&spans).span_context.span_id();
    let claim = named(&spans, "claim")[0];
    assert_eq!(claim.parent_span_id, parent);
    says(claim, "sqs_once.keys", 2);
    let settled = named(&spans, "settle");
    assert!(!settled.is_empty());
    assert!(settled.iter().all(|span| span.parent_span_id == parent));
}

#[tokio::test]
async fn the_span_of_a_record_names_its_route() {
    let traces = Traces::watch();
    let route = values().call(async |_: Value| {}).namespace("payments");
    let routes = Router::by_attribute("type").route("pay", route);
    let routing = Consumer::new(routes).store(MemoryStore::new());
    let routed = order("o-1", "pay").attribute("type", "pay");
    handle(&routing, [routed.message_id("m-1")]).await;
    let plain = order("o-2", "pay").message_id("m-2");
    handle(&handling(pay), [plain]).await;
    let spans = traces.ended();
    says(record(&spans, "m-1"), "sqs_once.route", "pay");
    assert_eq!(attribute(record(&spans, "m-2"), "sqs_once.route"), None);
}

#[tokio::test]
async fn spans_end_before_the_answer_even_where_somebody_keeps_them() {
    let consumer = handling(async |_: Value| std::mem::forget(tracing::Span::current()));
    let spans = spans_of(&consumer, [order("o-1", "pay").message_id("m-1")]).await;
    says(record(&spans, "m-1"), "sqs_once.outcome", "processed");
    says(batch(&spans), "sqs_once.batch_item_failures", 0);
}

#[tokio::test(start_paused = true)]
async fn records_that_the_deadline_cut_off_or_kept_from_starting_have_spans_too() {
    let consumer = handling(async |_: Value| std::future::pending::<()>().await).concurrency(1);
    let records = ["slow", "behind"].map(|id| order(id, "pay").message_id(id).fifo("group"));
    let spans = spans_of(&consumer, records).await;
    says(record(&spans, "slow"), "error.type", "failed");
    let behind = record(&spans, "behind");
    says(behind, "sqs_once.outcome", "failed");
    // The record was not started.
    assert_eq!(behind.status, Status::Unset);
    assert_eq!(attribute(behind, "error.type"), None);
    assert_eq!(behind.parent_span_id, batch(&spans).span_context.span_id());
}

#[tokio::test]
async fn a_start_is_a_span_with_its_steps() {
    let traces = Traces::watch();
    handling(pay).init().await.unwrap();
    let spans = traces.ended();
    let init = named(&spans, "init")[0].span_context.span_id();
    for step in ["configure", "open_store"] {
        assert_eq!(named(&spans, step)[0].parent_span_id, init);
    }
}

#[tokio::test]
async fn a_span_around_the_consumer_is_the_parent_of_its_batch() {
    let traces = Traces::watch();
    let around = tracing::info_span!("around");
    let consumer = handling(pay);
    let handled = handle(&consumer, [order("o-1", "pay")]);
    tracing::Instrument::instrument(handled, around).await;
    let spans = traces.ended();
    let around = named(&spans, "around")[0].span_context.span_id();
    assert_eq!(batch(&spans).parent_span_id, around);
}

#[tokio::test]
async fn a_batch_is_a_part_of_lambdas_trace_where_spans_go_to_xray() {
    let test = "a_batch_is_a_part_of_lambdas_trace_where_spans_go_to_xray";
    let variable = "OTEL_PROPAGATORS";
    let Ok(propagators) = std::env::var(variable) else {
        for propagators in ["tracecontext, xray-lambda", "", "tracecontext,baggage,xray"] {
            passes(module_path!(), test, &[(variable, propagators)]);
        }
        return;
    };
    let spans = handled([order("o-1", "pay")]).await;
    let batch = batch(&spans);
    if propagators.contains("xray-lambda") {
        let trace = batch.span_context.trace_id().to_string();
        assert_eq!(trace, "66666666cccccccccccccccccccccccc");
        assert_eq!(batch.parent_span_id.to_string(), "dddddddddddddddd");
    } else {
        assert_eq!(batch.parent_span_id, SpanId::INVALID);
    }
}
