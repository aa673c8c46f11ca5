//! Attributes of OpenTelemetry spans, by its conventions for messaging and for Lambda.
//!
//! They are set on the log's spans, but not as fields, because every log line would contain them.

mod xray;

use lambda_runtime::Context as Invocation;
use opentelemetry::trace::{SpanContext, Status, TraceContextExt};
use opentelemetry::{Context, InstrumentationScope, global};
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::env::process_env;
use crate::key::ItemId;
use crate::record::{CorrelationId, Message};
use crate::report::{Code, Entry};

use super::invocation::SAMPLED;

const TRACE_HEADER: &str = "AWSTraceHeader";

/// Passes spans to the global tracer provider: all at `info` and above, and this crate's own at `debug` and above.
/// Events are left out, because they are in the log, and an `error` event would mark its span as failed.
pub(super) fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let scope = InstrumentationScope::builder("sqs-once")
        .with_version(env!("CARGO_PKG_VERSION"))
        .build();
    tracing_opentelemetry::layer()
        .with_tracer(global::tracer_with_scope(scope))
        .with_location(false)
        .with_target(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(|metadata| {
            let ours = metadata.target().starts_with("sqs_once");
            let most = if ours { Level::DEBUG } else { Level::INFO };
            metadata.is_span() && *metadata.level() <= most && metadata.target() != SAMPLED
        }))
}

/// Returns whether spans belong to Lambda's X-Ray trace. They do only if they are exported to X-Ray. Otherwise their
/// parent would be missing, and without active tracing it would disable sampling.
fn follows_xray() -> bool {
    let propagators = process_env("OTEL_PROPAGATORS").unwrap_or_default();
    let mut propagators = propagators.split(',').map(str::trim);
    propagators.any(|name| name == "xray-lambda")
}

pub(crate) fn batch_began(
    span: &Span,
    messages: &[Message],
    invocation: &Invocation,
    cold_start: bool,
) {
    if span.is_disabled() {
        return;
    }
    let around = Span::current().context();
    let header = invocation.xray_trace_id.as_deref();
    let header = header.filter(|_| follows_xray());
    if let Some(lambdas) = header.and_then(xray::read)
        && !around.span().span_context().is_valid()
    {
        // Fails without an OpenTelemetry layer, or if the user's layer has another version.
        let _ = span.set_parent(Context::new().with_remote_span_context(lambdas));
    }
    let arn = &invocation.invoked_function_arn;
    span.set_attribute("faas.invocation_id", invocation.request_id.clone());
    span.set_attribute("faas.coldstart", cold_start);
    if let Some(account) = arn.split(':').nth(4) {
        span.set_attribute("cloud.account.id", account.to_owned());
        span.set_attribute("aws.lambda.invoked_arn", arn.clone());
    }
    span.set_attribute("messaging.batch.message_count", count(messages.len()));
    for producer in messages.iter().filter_map(producer) {
        span.add_link(producer);
    }
    let first = messages.first().and_then(Message::queue_arn);
    let same = messages.iter().all(|message| message.queue_arn() == first);
    begin(span, first.filter(|_| same).map(queue));
}

/// Ends the span of a batch now, even if other code holds a handle to it.
pub(crate) fn batch_ended(span: &Span, entries: &[Entry]) {
    let returned = |entry: &&Entry| !entry.report.is_acknowledged();
    let failures = entries.iter().filter(returned).count();
    span.set_attribute("sqs_once.batch_item_failures", count(failures));
    span.context().span().end();
}

pub(crate) fn record_began(span: &Span, message: &Message) {
    if span.is_disabled() {
        return;
    }
    span.set_attribute("messaging.message.id", message.id().to_owned());
    if let Some(body) = message.body() {
        span.set_attribute("messaging.message.body.size", count(body.len()));
    }
    if let Some(receive_count) = message.receive_count() {
        span.set_attribute("sqs_once.receive_count", i64::from(receive_count));
    }
    if let Some(producer) = producer(message) {
        span.add_link(producer);
    }
    begin(span, message.queue_arn().map(queue));
}

/// Ends the span of a message when the message ends, even if other code holds a handle to it.
pub(crate) fn record_ended(span: &Span, message: &Message, entry: &Entry) {
    if span.is_disabled() {
        return;
    }
    let report = &entry.report;
    let outcome = report.outcome().as_str();
    span.set_attribute("sqs_once.outcome", outcome);
    span.set_attribute("sqs_once.acknowledged", report.is_acknowledged());
    if let Some(route) = &entry.route {
        span.set_attribute("sqs_once.route", route.to_string());
    }
    if let Some(key) = &entry.key {
        span.set_attribute("sqs_once.key", ItemId::short(key));
    }
    if let Some(correlation_id) = message.correlation_id().map(CorrelationId::as_str) {
        let conversation = correlation_id.to_owned();
        span.set_attribute("messaging.message.conversation_id", conversation);
    }
    if let Some(code) = report.code() {
        span.set_attribute("sqs_once.code", Code::as_str(code));
    }
    if let Some(reason) = report.reason() {
        span.set_attribute("sqs_once.reason", reason.to_owned());
    }
    if report.has_failed() {
        span.set_attribute("error.type", outcome);
        span.set_status(Status::error(
            report.reason().unwrap_or_default().to_owned(),
        ));
    }
    span.context().span().end();
}

pub(crate) fn store_request(span: &Span, keys: usize) {
    span.set_attribute("sqs_once.keys", count(keys));
}

/// Sets the attributes that spans of batches and messages have in common. Everything that a sampler may use is set here
/// or earlier, except the name, which can't be set earlier.
fn begin(span: &Span, queue: Option<&str>) {
    span.set_attribute("faas.trigger", "pubsub");
    span.set_attribute("messaging.system", "aws_sqs");
    span.set_attribute("messaging.operation.name", "process");
    span.set_attribute("messaging.operation.type", "process");
    let name = match queue {
        Some(queue) => {
            span.set_attribute("messaging.destination.name", queue.to_owned());
            format!("process {queue}")
        }
        None => "process".to_owned(),
    };
    span.context().span().update_name(name);
}

/// Returns the span in which a message was sent, if SQS knows it.
fn producer(message: &Message) -> Option<SpanContext> {
    xray::read(message.system_attribute(TRACE_HEADER)?)
}

/// Returns a queue's name, the last part of its ARN.
pub(crate) fn queue(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

/// Converts a count. Counts of messages and bytes always fit.
fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(feature = "sqs")]
pub(crate) fn current_header() -> Option<String> {
    let context = Span::current().context();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| xray::write(&span))
}
