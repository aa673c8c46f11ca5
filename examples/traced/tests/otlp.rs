//! The OTLP requests of the real function, which a Runtime API invokes as Lambda does.

#![allow(clippy::unwrap_used, reason = "a test")]

mod collector;

use std::time::Duration;

use collector::Collector;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};
use sqs_once_local::{Function, Launch, LocalDynamoDb, TableDescription};

/// Enough for a loaded machine. No test waits this long.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The running function, its collector and its database.
struct World {
    collector: Collector,
    function: Function,
    _dynamodb: LocalDynamoDb,
}

impl World {
    async fn start() -> Self {
        let collector = Collector::start().await;
        let dynamodb = LocalDynamoDb::memory().await.unwrap();
        let table = TableDescription::default();
        dynamodb.create_table(&table).unwrap();
        let function = Launch::new(env!("CARGO_BIN_EXE_traced"))
            .dynamodb(&dynamodb)
            .env("SQS_ONCE_TABLE", &table.name)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
            .env("OTEL_SERVICE_NAME", "shipping")
            .start()
            .await
            .unwrap();
        Self {
            collector,
            function,
            _dynamodb: dynamodb,
        }
    }

    /// Sends another event: the function has then flushed the earlier ones.
    async fn flushed(&self) {
        assert!(self.invoke(&[]).await.is_empty());
    }

    /// Invokes the function and returns the message IDs of the batch item failures.
    async fn invoke(&self, records: &[Value]) -> Vec<String> {
        let event = json!({ "Records": records }).to_string();
        let answer = self.function.invoke(event, TIMEOUT).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let failures = answer["batchItemFailures"].as_array().unwrap().iter();
        let ids = failures.map(|failure| failure["itemIdentifier"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    }
}

fn order(id: &str, order: &str, parcels: u32) -> Value {
    json!({
        "messageId": id,
        "receiptHandle": "r",
        "body": json!({ "order_id": order, "parcels": parcels }).to_string(),
        "attributes": {
            "ApproximateReceiveCount": "2",
            "SentTimestamp": "1700000000000",
            "AWSTraceHeader": format!(
                "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8a{id};Sampled=1"
            ),
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders",
        "awsRegion": "eu-central-1",
    })
}

/// An order, its duplicate, and one that fails.
fn orders() -> [Value; 3] {
    let all = [("a1", "o-1", 3), ("a2", "o-1", 3), ("a3", "o-2", 0)];
    all.map(|(id, name, parcels)| order(id, name, parcels))
}

/// `spans` of the library tests what each span says.
#[tokio::test]
async fn a_collector_gets_a_batch_with_its_records_when_it_was_answered() {
    let world = World::start().await;
    assert_eq!(world.invoke(&orders()).await, ["a3"]);
    world.flushed().await;
    let spans = world.collector.spans();
    let named = |name: &'static str| spans.iter().filter(move |span| span.name == name);
    let is_batch = |span: &&Span| span.links.len() == 3;
    let batch = named("process orders").find(is_batch).unwrap();
    assert!(batch.parent_span_id.is_empty(), "Lambda's is not sampled");
    for (id, outcome) in [("a1", "processed"), ("a2", "duplicate"), ("a3", "failed")] {
        let says = |span: &Span, name: &str, text: &str| {
            collector::value(&span.attributes, name).as_deref() == Some(text)
        };
        let its = |span: &&Span| says(span, "messaging.message.id", id);
        let span = named("process orders").find(its).unwrap();
        assert_eq!(span.parent_span_id, batch.span_id);
        assert!(says(span, "sqs_once.outcome", outcome), "{span:#?}");
        let status = span.status.clone().unwrap_or_default();
        let has_error = status.code() == StatusCode::Error;
        assert_eq!(has_error, outcome == "failed", "{status:?}");
    }

    // The function's own span is inside the handler's.
    let own = named("print_labels").next().unwrap();
    let is_parent = |span: &Span| span.span_id == own.parent_span_id;
    assert!(named("handler").any(is_parent));
    // The start has its own trace.
    assert_ne!(named("init").next().unwrap().trace_id, batch.trace_id);
    assert_eq!(world.collector.services(), ["shipping"]);
}

#[tokio::test]
async fn a_collector_gets_the_metrics_of_every_batch() {
    let world = World::start().await;
    world.invoke(&orders()).await;
    world.invoke(&[order("a1", "o-1", 3)]).await;
    world.flushed().await;

    let metric = |name: &str| {
        let mut metrics = world.collector.metrics().into_iter();
        // Each value is the sum since the start.
        let last = metrics.rfind(|metric| metric.name == name);
        last.unwrap_or_else(|| panic!("{name}"))
    };
    let records = metric("sqs_once.records");
    assert_eq!(records.unit, "{record}");
    let Some(Data::Sum(sum)) = records.data else {
        panic!("a counter")
    };
    let ended = |outcome: &str| {
        let mut points = sum.data_points.iter().filter(|point| {
            collector::value(&point.attributes, "sqs_once.outcome").as_deref() == Some(outcome)
        });
        collector::count(points.next().unwrap())
    };
    let outcomes = ["processed", "duplicate", "failed", "terminal"];
    assert_eq!(outcomes.map(ended), [1, 2, 1, 0]);
    let point = &sum.data_points[0];
    for (name, expected) in [
        ("service", "traced"),
        ("messaging.system", "aws_sqs"),
        ("messaging.operation.name", "process"),
        ("messaging.destination.name", "orders"),
    ] {
        let value = collector::value(&point.attributes, name);
        assert_eq!(value.as_deref(), Some(expected));
    }
    assert_eq!(point.attributes.len(), 5, "each value of one would cost");

    let received = metric("messaging.client.consumed.messages");
    let Some(Data::Sum(sum)) = received.data else {
        panic!("a counter")
    };
    assert_eq!(collector::count(&sum.data_points[0]), 4);
    for (name, unit, count) in [
        ("messaging.process.duration", "s", 2),
        ("sqs_once.message.age", "s", 4),
        ("sqs_once.message.receive_count", "{delivery}", 4),
    ] {
        let metric = metric(name);
        assert_eq!(metric.unit, unit);
        let Some(Data::Histogram(histogram)) = metric.data else {
            panic!("{name} is not a histogram")
        };
        assert_eq!(histogram.data_points[0].count, count, "{name}");
    }
    // In seconds. The messages were sent in 2023.
    let Some(Data::Histogram(ages)) = metric("sqs_once.message.age").data else {
        panic!("a histogram")
    };
    let age = ages.data_points[0].sum.unwrap() / 4.0;
    assert!(age > 9e7 && age < 9e9, "{age}");
}

#[tokio::test]
async fn a_collector_that_is_away_costs_no_message() {
    let world = World::start().await;
    world.collector.stop();
    for id in ["a1", "a2"] {
        assert!(world.invoke(&[order(id, id, 1)]).await.is_empty());
    }
}
