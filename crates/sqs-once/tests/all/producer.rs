//! A producer's attributes, through a queue to the consumer.

use std::sync::Arc;
use std::time::SystemTime;

use crate::no_secrets::watch;
use crate::support::{Notes, in_simulated_time};
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use aws_sdk_sqs::types::builders::SendMessageBatchRequestEntryBuilder;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    SendMessageBatchRequestEntry,
};
use aws_sdk_sqs::{Client, Config};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use proptest::prelude::*;
use serde_json::Value;
use sqs_once::extract::{CorrelationId, Message};
use sqs_once::key::{KeyError, MessageKey, Namespace};
use sqs_once::producer::{Outgoing, OutgoingError};
use sqs_once::testing::{Answer, Bench, Event, Record};
use sqs_once::{BusinessKey, Handler, State};
use sqs_once_local::{EventSourceMapping, LocalSqs, QueueSettings, Queues};
use tracing::subscriber::DefaultGuard;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// What the handler received of each record: key, correlation ID and trace header.
type Seen = Notes<(BusinessKey, Option<String>, Option<String>)>;

#[sqs_once::handler(key = MessageKey::producer(), namespace = "test")]
async fn note(
    _order: Value,
    key: BusinessKey,
    correlation: Option<CorrelationId>,
    meta: Arc<Message>,
    State(seen): State<Seen>,
) {
    let trace = meta.system_attribute("AWSTraceHeader").map(str::to_owned);
    let correlation = correlation.map(|id| id.as_str().to_owned());
    seen.add((key, correlation, trace));
}

fn consumer(seen: &Seen) -> Handler {
    note::handler(seen.clone()).namespace("orders")
}

/// A real queue on loopback, the SDK's client, and the queue's consumer.
struct Way {
    sqs: LocalSqs,
    client: Client,
    bench: Bench,
    seen: Seen,
}

const QUEUE: &str = "orders";

impl Way {
    async fn new() -> Self {
        let mut queues = Queues::default();
        queues.create(QUEUE, QueueSettings::default()).unwrap();
        let sqs = LocalSqs::start(queues).await.unwrap();
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-central-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .endpoint_url(sqs.endpoint())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        let seen = Seen::default();
        Self {
            client: Client::from_conf(config),
            sqs,
            bench: Bench::new(consumer(&seen)),
            seen,
        }
    }

    fn message(&self) -> SendMessageFluentBuilder {
        let message = self.client.send_message();
        message.queue_url(self.sqs.url(QUEUE)).message_body("{}")
    }

    async fn send(&self, outgoing: &Outgoing) {
        let message = outgoing.onto(self.message()).unwrap();
        message.send().await.unwrap();
    }

    async fn receive(&self) -> Answer {
        let mapping = EventSourceMapping::new(&self.sqs, QUEUE, 10);
        let batch = mapping.poll(SystemTime::now()).unwrap().unwrap();
        let event = String::from_utf8(batch.event().to_vec()).unwrap();
        self.bench.run(Event::from_json(event)).await
    }
}

fn entry() -> SendMessageBatchRequestEntryBuilder {
    SendMessageBatchRequestEntry::builder()
        .id("e-1")
        .message_body("{}")
}

/// Gives this thread's spans OpenTelemetry contexts.
fn traces() -> DefaultGuard {
    let provider = SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    watch::beside(layer)
}

#[tokio::test]
async fn key_correlation_id_and_trace_arrive_with_the_message_and_with_entries_of_a_batch() {
    let _guard = traces();
    let way = Way::new().await;
    let outgoing = |key: u64| {
        let correlation_id = CorrelationId::new("c-7\u{fffe}").unwrap();
        Outgoing::new(&key).unwrap().correlation_id(correlation_id)
    };

    let span = tracing::info_span!("send");
    let message = span.in_scope(|| outgoing(1).onto(way.message()).unwrap());
    let entry = span.in_scope(|| outgoing(2).onto(entry()).unwrap());
    message.send().await.unwrap();
    let batch = way.client.send_message_batch();
    let batch = batch.queue_url(way.sqs.url(QUEUE));
    let batch = batch.entries(entry.build().unwrap());
    batch.send().await.unwrap();
    way.receive().await;

    let context = span.context().span().span_context().clone();
    let trace = context.trace_id().to_string();
    let (time, rest) = trace.split_at(8);
    let parent = context.span_id();
    let header = format!("Root=1-{time}-{rest};Parent={parent};Sampled=1");
    let seen = way.seen.all();
    assert_eq!(seen.len(), 2);
    for key in [1, 2].map(|key| BusinessKey::new(&key).unwrap()) {
        assert!(seen.iter().any(|(seen, ..)| *seen == key), "{key:?}");
    }
    for (_, correlation, trace) in seen {
        assert_eq!(correlation.as_deref(), Some("c-7\u{fffd}"));
        assert_eq!(trace.as_deref(), Some(&*header));
    }
}

#[tokio::test]
async fn without_a_span_no_trace_is_made_up_and_one_that_is_set_stays() {
    let way = Way::new().await;
    let outgoing = Outgoing::new("o-1").unwrap();
    let header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    let set = MessageSystemAttributeValue::builder().data_type("String");
    let set = set.string_value(header).build().unwrap();
    let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
    let traced = way.message().message_system_attributes(name, set);

    let guard = traces();
    let traced = tracing::info_span!("send").in_scope(|| outgoing.onto(traced).unwrap());
    drop(guard);
    traced.send().await.unwrap();
    way.receive().await;
    way.send(&Outgoing::new("o-2").unwrap()).await;
    way.receive().await;
    let traces = way.seen.take().into_iter().map(|(_, _, trace)| trace);
    let traces: Vec<_> = traces.collect();
    assert_eq!(traces, [Some(header.to_owned()), None]);
}

#[tokio::test]
async fn a_message_keeps_its_own_attributes_and_says_when_there_is_no_room() {
    let way = Way::new().await;
    let attribute = || {
        let value = MessageAttributeValue::builder().data_type("String");
        value.string_value("own").build().unwrap()
    };
    let with = |count: usize| {
        (0..count).fold(way.message(), |message, number| {
            message.message_attributes(format!("own-{number}"), attribute())
        })
    };
    let outgoing = Outgoing::new("o-1").unwrap();
    let full = outgoing.onto(with(9)).unwrap();
    assert_eq!(full.get_message_attributes().as_ref().unwrap().len(), 10);
    full.send().await.unwrap();
    let refused = outgoing.onto(with(10));
    assert!(matches!(refused, Err(OutgoingError::TooMany { count: 11 })));
    let message = way.message();
    let taken = message.message_attributes("business-key", attribute());
    let error = outgoing.onto(taken).unwrap_err();
    assert!(error.to_string().contains("`business-key`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_wrote_makes_its_record_terminal() {
    let bench = Bench::new(consumer(&Seen::default()));
    let texts = "o-1|s:|s:%20|s:a,|i:01|i:+1|i:-0|i:|b:yes|x:0|x:AB|x:|n:|s:a b|s:%4|s:%4z|s:%e2%82%ac|s:%41|s:%FF|s:%é|,|:";
    for text in texts.split('|') {
        let record = Record::text("{}").attribute("business-key", text);
        let answer = bench.run(Event::new([record])).await;
        answer.assert_terminal("m-1");
    }
    let answer = bench.run(Event::new([Record::text("{}")])).await;
    answer.assert_terminal("m-1");
    answer.assert_reason("m-1", "the business key is missing");
}

#[test]
fn a_deduplication_id_is_that_of_a_key_in_a_namespace_and_fits() {
    let id = |namespace, key: &str| Outgoing::new(key).unwrap().deduplication_id(namespace);
    assert_eq!(id("charges", "o-1"), id("charges", "o-1"));
    assert_ne!(id("charges", "o-1"), id("charges", "o-2"));
    // SQS would deliver only one of the two events.
    assert_ne!(id("charges", "o-1"), id("refunds", "o-1"));
    let long = id("charges", &"ü".repeat(1000));
    assert!(long.len() <= 128 && long.bytes().all(|byte| byte.is_ascii_alphanumeric()));
}

#[test]
fn what_can_be_no_key_is_not_sent() {
    assert!(matches!(Outgoing::new(" "), Err(KeyError::Empty)));
    assert!(matches!(Outgoing::new(&None::<u8>), Err(KeyError::Missing)));
}

/// Arbitrary texts, and texts that look like parts of a readable key.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[s:,%#2C0aé ]{1,8}", "\\PC{1,8}", "(?s).{1,8}"]
        .prop_filter("not blank", |text: &String| !text.trim().is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Different keys therefore have different attributes and different readable IDs.
    #[test]
    fn every_key_survives_the_way_in_visible_ascii_and_in_the_form_of_its_readable_id(
        text in text(), number: i128, large: u128, yes: bool,
        bytes in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let key = BusinessKey::new(&(text, number, large, yes, bytes)).unwrap();
        let entry = Outgoing::new(&key).unwrap().onto(entry()).unwrap();
        let attributes = entry.get_message_attributes().as_ref().unwrap();
        let sent = attributes["business-key"].string_value().unwrap();
        prop_assert!(sent.bytes().all(|byte| byte.is_ascii_graphic()), "{sent}");
        let id = Namespace::new("n").unwrap().readable_keys(true).item_id(&key);
        prop_assert_eq!(id.as_str(), format!("n#{sent}"));

        let seen = Seen::default();
        let record = Record::text("{}").attribute("business-key", sent);
        let bench = Bench::new(consumer(&seen));
        in_simulated_time(bench.run(Event::new([record]))).assert_processed("m-1");
        let (arrived, ..) = seen.take().remove(0);
        prop_assert_eq!(arrived, key);
    }
}
