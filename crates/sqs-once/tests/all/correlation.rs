//! Correlation IDs: their sources, and where they appear.

use std::sync::Arc;

use crate::support::envelope_bench::{attributed, event_bridge, publication};
use crate::support::sqs::{Sqs, Turn};
use crate::support::{
    Bench, DLQ, OpenedBy, Tested, assert_contains, body, grouped, messages, order, with,
    with_attribute,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sqs_once::HandlerError;
use sqs_once::body::{Auto, DecodeError, EventBridge};
use sqs_once::extract::{CorrelationId, Message};
use sqs_once::telemetry::Telemetry;

const TRACE: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

fn consuming() -> Tested {
    Bench::new().on(messages().call(async |_: IgnoredAny| {}))
}

fn traced(mut record: Value, header: &str) -> Value {
    record["attributes"]["AWSTraceHeader"] = json!(header);
    record
}

/// The correlation IDs in the records' log lines, in the batch's order.
fn logged(bench: &Bench) -> Vec<Option<String>> {
    let lines = bench.lines();
    let ids = lines.iter().map(|line| line.get("correlation_id").cloned());
    ids.collect()
}

async fn assert_found(bench: &Tested, record: Value, expected: Option<&str>) {
    bench.run([record]).await;
    assert_eq!(logged(bench)[0].as_deref(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_attribute_goes_before_the_trace_and_its_spellings_have_an_order() {
    let bench = consuming();
    let spellings = [
        "correlation-id",
        "correlationId",
        "CorrelationId",
        "correlation_id",
        "x-correlation-id",
        "X-Correlation-Id",
    ];
    for from in 0..spellings.len() {
        let names = spellings[from..].iter();
        let record = names.fold(order("a"), |record, name| {
            with_attribute(record, name, name)
        });
        assert_found(&bench, traced(record, TRACE), Some(spellings[from])).await;
    }
    let trace = Some("1-5759e988-bd862e3fe1be46a994272793");
    assert_found(&bench, traced(order("a"), TRACE), trace).await;
    for nothing in ["", "Parent=53995c3f42cd8ad8", "Root=", "Root"] {
        assert_found(&bench, traced(order("a"), nothing), None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_envelopes_id_goes_after_an_attribute_and_before_the_trace() {
    let bench = consuming().with(|it| it.envelope(Auto));
    let event = event_bridge("e-1", "{}");
    let with_id = attributed(&event, &[("correlationId", "c-1")]).to_string();
    for (content, expected) in [
        (&event, "e-1"),
        (&publication("n-1", "{}"), "n-1"),
        (&publication("n-1", &event), "e-1"),
        (&with_id, "c-1"),
    ] {
        assert_found(&bench, traced(body(content), TRACE), Some(expected)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_from_outside_is_capped_and_breaks_no_line() {
    let bench = consuming();
    let long = "é".repeat(1001);
    let cut = "é".repeat(CorrelationId::MAX_LEN / 2);
    for (given, kept) in [
        (" c-1 ", Some("c-1")),
        (&*long, Some(&*cut)),
        ("  ", None),
        ("c-1\nERROR forged", None),
        ("c-1\u{1b}[2J", None),
    ] {
        let record = with_attribute(order("a"), "correlation-id", given);
        assert_found(&bench, record, kept).await;
    }
    let record = with_attribute(order("a"), "correlation-id", " ");
    let record = with_attribute(record, "correlationId", "c-2");
    assert_found(&bench, record, Some("c-2")).await;
}

#[tokio::test(start_paused = true)]
async fn a_function_of_ones_own_is_asked_in_place_of_the_default_with_the_envelope_opened() {
    let bench = consuming().with(|it| it.envelope(EventBridge));
    let telemetry = Telemetry::new().correlation_id(|message| match message.content() {
        Some("1") => panic!("4111-1111"),
        Some("2") => None,
        content => content.map(|content| format!("of {content}")),
    });
    let bench = bench.with_consumer(|it| it.telemetry(telemetry));
    let records = [r#"{"detail":0}"#, r#"{"detail":1}"#, r#"{"detail":2}"#];
    let records = records.map(|content| traced(body(content), TRACE));
    assert_eq!(bench.run(records).await, [""; 0]);
    assert_eq!(logged(&bench), [Some("of 0".to_owned()), None, None]);
}

#[tokio::test(start_paused = true)]
async fn every_line_about_a_record_has_it_whatever_becomes_of_the_record() {
    let sqs = Sqs::always(Turn::Refuse("AccessDenied"));
    let failing = async |_: IgnoredAny| Err::<(), _>(HandlerError::terminal("no such card"));
    let bench = Bench::new()
        .on(messages().call(failing))
        .with_consumer(|it| it.queue(sqs.queue().dead_letter_queue(DLQ)));
    let correlated = |record, id| with_attribute(record, "correlation-id", id);
    let batch = [
        correlated(grouped("g", "a"), "c-0"),
        // Never started, since the first record of its group fails.
        correlated(grouped("g", "b"), "c-1"),
        correlated(grouped("h", "c"), "c-2"),
    ];
    let mut batch = batch.to_vec();
    batch[2]["body"] = json!("not json");
    bench.run(batch).await;
    let ids = ["c-0", "c-1", "c-2"].map(|id| Some(id.to_owned()));
    assert_eq!(logged(&bench), ids);
    let unmoved = bench.log.take("sqs_once::dead_letters");
    let mut told: Vec<_> = unmoved.iter().map(|line| &line["correlation_id"]).collect();
    told.sort();
    assert_eq!(told, ["c-0", "c-2"]);

    drop(bench);
    let broken = OpenedBy(|_| Err(DecodeError::envelope("broken", "as it is")));
    let unopened = consuming().with(|it| it.envelope(broken));
    let record = correlated(order("a"), "c-3");
    assert_found(&unopened, record, Some("c-3")).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_ask_for_it() {
    let bench = Bench::new();
    let asking = async |_: IgnoredAny, id: CorrelationId, message: Arc<Message>| {
        assert_eq!((id.as_str(), Some(&id)), ("c-1", message.correlation_id()));
        assert_eq!(id.to_string(), "c-1");
    };
    let record = with_attribute(order("a"), "correlation-id", "c-1");
    let asking = bench.consumer(messages().call(asking));
    assert_eq!(bench.deliver(&asking, [record, order("b")]).await, ["m-1"]);
    let line = &bench.lines()[1];
    assert_eq!(line["outcome"], "terminal");
    assert_contains!(line["reason"], "asks for a CorrelationId");

    let optional = async |_: IgnoredAny, id: Option<CorrelationId>| assert_eq!(id, None);
    let optional = bench.consumer(messages().call(optional));
    let record = with(order("b"), json!({ "messageId": "optional" }));
    assert_eq!(bench.deliver(&optional, [record]).await, [""; 0]);
}
