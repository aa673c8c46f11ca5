//! The lines that a process writes to stdout after `sqs_once::run` has set up logging. A process has one subscriber and
//! one stdout, so each test starts its own process.

#![allow(clippy::print_stdout, reason = "what is printed beside the log")]

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use crate::support::process::{Process, is_logging};
use aws_lambda_events::event::sqs::SqsEvent;
use proptest::prelude::*;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sqs_once::key::ItemId;
use sqs_once::store::Store;
use sqs_once::store::{
    Claim, Claimed, Item, Settled, Settlement, StoreError, StoreErrorKind, StoreFuture,
};
use sqs_once::testing::{Event, Record};
use sqs_once::time::Timestamp;
use sqs_once::{HandlerError, MemoryStore};
use tower_service::Service;
use tracing::field::Empty;
use tracing::{debug, debug_span, error_span, info, info_span, warn};

/// The members of a line in order, including repeated names.
struct Line(Vec<(String, Box<RawValue>)>);

impl Line {
    fn parse(line: &str) -> Self {
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn raw(&self, name: &str) -> &str {
        let mut members = self.0.iter().filter(|(other, _)| other == name);
        let (_, value) = members.next().unwrap();
        assert!(members.next().is_none(), "{name} stands twice");
        value.get()
    }

    fn text(&self, name: &str) -> String {
        serde_json::from_str(self.raw(name)).unwrap()
    }
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Line;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Line(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A line without its timestamp, which must be valid.
fn without_timestamp(line: &str) -> Value {
    let members = Line::parse(&format!("{line}\n"));
    let timestamp = members.text("timestamp");
    let shape = timestamp.replace(|char: char| char.is_ascii_digit(), "0");
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    let line: Map<_, _> = serde_json::from_str(line).unwrap();
    assert_eq!(line.len(), members.0.len(), "a name stands twice: {line:?}");
    let rest = line.into_iter().filter(|(name, _)| name != "timestamp");
    Value::Object(rest.collect())
}

#[derive(Debug, thiserror::Error)]
#[error("charge refused")]
struct Refused(#[source] std::num::ParseIntError);

/// Logs while it is formatted.
struct Talkative;

impl fmt::Debug for Talkative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        info!(said = "inside", "while it is formatted");
        f.write_str("talkative")
    }
}

/// Its formatting fails.
struct Broken;

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("so \"far\"")?;
        Err(fmt::Error)
    }
}

struct Panicking;

impl fmt::Debug for Panicking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half a value")?;
        panic!("no more");
    }
}

#[tokio::test]
async fn in_a_process_that_logs_all_there_is() {
    if !is_logging().await {
        return;
    }
    info!(amount_cents = 1299, currency = "EUR", "charged {}", "o-1");
    println!("the user's own line");
    debug!("below the level");
    warn!(
        a = u64::MAX,
        b = i64::MIN,
        c = u128::MAX,
        d = i128::MIN,
        e = 0.1,
        f = true,
        g = Some("given"),
        h = None::<u32>,
        "numbers"
    );
    info!(a = f64::NAN, b = f64::INFINITY, c = f64::NEG_INFINITY);
    info!(text = "\"\\\n\t\r\u{0}\u{1f}\u{7f}\u{2028}\u{1f600}", debug = ?"\"\n", display = %"a\nb");
    info!("a \"quoted\"\nname" = 1, dotted.name = 2, r#type = 3);
    info!(timestamp = 1, level = 2, target = 3, "reserved");
    info!(n = 1, other = "between", n = 2, "twice");
    let refused = Refused("x".parse::<u8>().unwrap_err());
    info!(error = &refused as &(dyn Error + 'static), "refused");

    let outer = info_span!("outer", requestId = "r-1", shared = "outer", own = "outer");
    let inner = error_span!(
        parent: &outer,
        "inner",
        later = Empty,
        shared = "inner",
        own = "inner"
    );
    outer.in_scope(|| {
        inner.in_scope(|| {
            info!(own = "event", "in both");
            inner.record("later", "now");
            info!("later");
            inner.record("shared", "changed").record("own", "longer");
            info!("changed");
            info!(parent: &outer, "in the outer one");
            info!(parent: None, "in none");
        });
    });
    let hidden = || debug_span!("hidden", hidden = true);
    outer.in_scope(|| hidden().in_scope(|| info!("in one that is shown")));

    info!(value = ?Talkative, "outside");
    info_span!("span", value = ?Talkative).in_scope(|| info!("in its span"));
    let late = info_span!("span", value = Empty);
    late.record("value", tracing::field::debug(Talkative));
    late.in_scope(|| info!("recorded in its span"));
    info!(value = ?Broken, after = 1, "broken");
    catch_unwind(AssertUnwindSafe(|| info!(value = ?Panicking, "never"))).unwrap_err();
    info!("after a panic");
    std::process::exit(0);
}

#[test]
fn a_line_is_one_json_object_with_all_fields_at_its_top() {
    let line = |level: &str, fields: Value| {
        let mut line = fields;
        line["level"] = level.into();
        line["target"] = module_path!().into();
        line
    };
    let while_formatted = || json!({ "said": "inside", "message": "while it is formatted" });
    let process = Process::start(module_path!(), "in_a_process_that_logs_all_there_is");
    let lines = process.rest();
    let (refusal, lines) = lines.split_first().unwrap();
    let refusal = without_timestamp(refusal);
    assert_eq!(refusal["level"], "ERROR");
    assert_eq!(refusal["message"], "the function can't start");
    assert!(
        refusal["error"]
            .as_str()
            .unwrap()
            .contains("SQS_ONCE_TABLE")
    );

    assert_eq!(lines[1], "the user's own line");
    let log = lines.iter().filter(|line| **line != "the user's own line");
    let log: Vec<_> = log.map(|line| without_timestamp(line)).collect();
    let expected = [
        line(
            "INFO",
            json!({ "message": "charged o-1", "amount_cents": 1299, "currency": "EUR" }),
        ),
        line(
            "WARN",
            json!({
                "message": "numbers", "a": u64::MAX, "b": i64::MIN, "c": u128::MAX as f64,
                "d": i128::MIN as f64, "e": 0.1, "f": true, "g": "given",
            }),
        ),
        line("INFO", json!({ "a": null, "b": null, "c": null })),
        line(
            "INFO",
            json!({
                "text": "\"\\\n\t\r\u{0}\u{1f}\u{7f}\u{2028}\u{1f600}",
                "debug": r#""\"\n""#, "display": "a\nb",
            }),
        ),
        line(
            "INFO",
            json!({ "a \"quoted\"\nname": 1, "dotted.name": 2, "type": 3 }),
        ),
        line(
            "INFO",
            json!({ "message": "reserved", "timestamp_": 1, "level_": 2, "target_": 3 }),
        ),
        line(
            "INFO",
            json!({ "message": "twice", "n": 2, "other": "between" }),
        ),
        line(
            "INFO",
            json!({ "message": "refused", "error": "charge refused: invalid digit found in string" }),
        ),
        line(
            "INFO",
            json!({ "message": "in both", "own": "event", "shared": "inner", "requestId": "r-1" }),
        ),
        line(
            "INFO",
            json!({
                "message": "later", "own": "inner", "shared": "inner", "later": "now", "requestId": "r-1",
            }),
        ),
        line(
            "INFO",
            json!({
                "message": "changed", "own": "longer", "shared": "changed", "later": "now",
                "requestId": "r-1",
            }),
        ),
        line(
            "INFO",
            json!({
                "message": "in the outer one", "own": "outer", "shared": "outer", "requestId": "r-1",
            }),
        ),
        line("INFO", json!({ "message": "in none" })),
        line(
            "INFO",
            json!({
                "message": "in one that is shown", "own": "outer", "shared": "outer", "requestId": "r-1",
            }),
        ),
        line("INFO", while_formatted()),
        line(
            "INFO",
            json!({ "message": "outside", "value": "talkative" }),
        ),
        // The log and the trace each format the fields of spans.
        line("INFO", while_formatted()),
        line("INFO", while_formatted()),
        line(
            "INFO",
            json!({ "message": "in its span", "value": "talkative" }),
        ),
        line("INFO", while_formatted()),
        line("INFO", while_formatted()),
        line(
            "INFO",
            json!({ "message": "recorded in its span", "value": "talkative" }),
        ),
        line(
            "INFO",
            json!({ "message": "broken", "value": "so \"far\"", "after": 1 }),
        ),
        line("INFO", json!({ "message": "after a panic" })),
    ];
    for (line, expected) in log.iter().zip(&expected) {
        assert_eq!(line, expected);
    }
    assert_eq!(log.len(), expected.len());
}

/// The event that a process logs: these values in nested spans.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    message: String,
    text: String,
    /// Whether each span's text is a plain value, recorded later, or formatted by `Debug`.
    spans: Vec<(Given, String)>,
    /// As bits, since JSON cannot represent every float.
    float: u64,
    signed: i64,
    unsigned: u64,
    /// As text, since the JSON parser would read it as a float.
    wide: String,
    flag: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Given {
    AtOnce,
    Later,
    Debugged,
}

const SPANS: [&str; 4] = ["span_0", "span_1", "span_2", "span_3"];

impl Told {
    fn log(&self, depth: usize) {
        let Some((given, text)) = self.spans.get(depth) else {
            return info!(
                text = self.text,
                float = f64::from_bits(self.float),
                signed = self.signed,
                unsigned = self.unsigned,
                wide = self.wide.parse::<i128>().unwrap(),
                flag = self.flag,
                "{}",
                self.message
            );
        };
        let span = match depth {
            0 => info_span!("span", span_0 = Empty, text, innermost = text),
            1 => info_span!("span", span_1 = Empty, text, innermost = text),
            2 => info_span!("span", span_2 = Empty, text, innermost = text),
            _ => info_span!("span", span_3 = Empty, text, innermost = text),
        };
        match given {
            Given::AtOnce => span.record(SPANS[depth], text),
            Given::Later => span
                .record(SPANS[depth], "not yet")
                .record(SPANS[depth], text),
            Given::Debugged => span.record(SPANS[depth], tracing::field::debug(text)),
        };
        span.in_scope(|| self.log(depth + 1));
    }

    fn check(&self, line: &Line) {
        assert_eq!(line.text("message"), self.message);
        assert_eq!(line.text("text"), self.text);
        let float = f64::from_bits(self.float);
        match float.is_finite() {
            true => assert_eq!(line.raw("float").parse::<f64>().unwrap(), float),
            false => assert_eq!(line.raw("float"), "null"),
        }
        assert_eq!(line.raw("signed"), self.signed.to_string());
        assert_eq!(line.raw("unsigned"), self.unsigned.to_string());
        assert_eq!(line.raw("wide"), self.wide);
        assert_eq!(line.raw("flag"), self.flag.to_string());
        for (name, (given, text)) in SPANS.iter().zip(&self.spans) {
            let expected = match given {
                Given::AtOnce | Given::Later => text.clone(),
                Given::Debugged => format!("{text:?}"),
            };
            assert_eq!(line.text(name), expected);
        }
        if let Some((_, innermost)) = self.spans.last() {
            assert_eq!(line.text("innermost"), *innermost);
        }
        // In addition to these: timestamp, level, target and the event's seven fields.
        let spans = self.spans.len() + usize::from(!self.spans.is_empty());
        assert_eq!(line.0.len(), 10 + spans);
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let special = "\"\\/\n\r\t\u{0}\u{8}\u{c}\u{1f}\u{7f}\u{85}\u{2028}\u{2029}\u{feff}";
    let special = prop::sample::select(special.chars().collect::<Vec<_>>());
    let chars = prop_oneof![any::<char>(), special, prop::char::range(' ', '~')];
    prop::collection::vec(chars, 0..60).prop_map(String::from_iter)
}

fn anything() -> impl Strategy<Value = Told> {
    let given = prop_oneof![
        Just(Given::AtOnce),
        Just(Given::Later),
        Just(Given::Debugged)
    ];
    let spans = prop::collection::vec((given, any_text()), 0..=SPANS.len());
    let numbers = (any::<f64>(), any::<i64>(), any::<u64>(), any::<i128>());
    (any_text(), any_text(), spans, numbers, any::<bool>()).prop_map(
        |(message, text, spans, (float, signed, unsigned, wide), flag)| Told {
            message,
            text,
            spans,
            float: float.to_bits(),
            signed,
            unsigned,
            wide: wide.to_string(),
            flag,
        },
    )
}

#[tokio::test]
async fn in_a_process_that_logs_what_it_is_told() {
    if !is_logging().await {
        return;
    }
    for told in std::io::stdin().lines() {
        let told: Told = serde_json::from_str(&told.unwrap()).unwrap();
        told.log(0);
    }
    std::process::exit(0);
}

#[test]
fn whatever_is_logged_comes_back_from_one_line() {
    let mut process = Process::start(module_path!(), "in_a_process_that_logs_what_it_is_told");
    process.line();
    let process = std::cell::RefCell::new(process);
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(told in anything())| {
        let mut process = process.borrow_mut();
        process.tell(&told);
        told.check(&Line::parse(&process.line()));
    });
}

#[test]
fn a_line_that_nobody_reads_harms_nobody() {
    let Process {
        mut child,
        mut input,
        output,
    } = Process::start(module_path!(), "in_a_process_that_logs_what_it_is_told");
    drop(output);
    let told = json!({
        "message": "", "text": "", "spans": [], "float": 0, "signed": 0, "unsigned": 0, "wide": "0",
        "flag": true,
    });
    writeln!(input, "{told}").unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Text that would forge a log line if it were not escaped.
const FORGED: &str =
    "\n2030-01-01T00:00:00.000000Z ERROR forged: everything is fine\r\u{1b}[2K\u{85}\u{2028}";

/// A store whose errors have a given text.
struct Saying;

impl Store for Saying {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move { claims.iter().map(|_| Err(saying())).collect() })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move { settlements.iter().map(|_| Err(saying())).collect() })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move { ids.iter().map(|_| Err(saying())).collect() })
    }
}

fn saying() -> StoreError {
    StoreError::new(StoreErrorKind::Other, FORGED)
}

#[tokio::test]
async fn in_a_process_whose_messages_forge_lines() {
    if !is_logging().await {
        return;
    }
    let id = |name: &str| format!("{name}{FORGED}");
    let record = Record::json(&json!({ "id": id("key") }))
        .message_id(id("message"))
        .attribute("correlation-id", id("correlation"))
        .attribute(id("name"), id("value"))
        .fifo(id("group"));
    let event = Event::new([record]);
    let consumer = || {
        sqs_once::consumer::<Value>()
            .key(|order: &Value| order["id"].as_str().map(str::to_owned))
            .handler(async |_: Value| -> Result<(), HandlerError> { Err(FORGED.into()) })
            .on_failure(async |_| Err(FORGED.into()))
            .readable_keys(true)
            .namespace("logs")
    };
    for mut consumer in [
        consumer().store(MemoryStore::new()),
        consumer().store(Saying),
    ] {
        consumer.init().await.unwrap();
        let mut context = lambda_runtime::Context::default();
        let in_a_minute = SystemTime::now() + Duration::from_secs(60);
        context.deadline = Timestamp::from(in_a_minute).as_millis();
        let event: SqsEvent = serde_json::from_str(event.as_json()).unwrap();
        let invocation = lambda_runtime::LambdaEvent::new(event, context);
        consumer.call(invocation).await.unwrap();
    }
    std::process::exit(0);
}

#[test]
fn nothing_that_comes_from_outside_forges_a_line() {
    for format in ["JSON", "Text"] {
        let process = Process::with(
            module_path!(),
            "in_a_process_whose_messages_forge_lines",
            &[("AWS_LAMBDA_LOG_FORMAT", format)],
        );
        let lines = process.rest();
        assert!(
            lines.iter().any(|line| line.contains("forged")),
            "{lines:#?}"
        );
        for line in lines {
            match format {
                "JSON" => assert!(line.starts_with("{\"timestamp\":\"2"), "{line}"),
                _ => assert!(
                    line.starts_with("20") && !line.starts_with("2030"),
                    "{line}"
                ),
            }
            assert!(!line.contains(['\u{1b}', '\r']), "{line:?}");
        }
    }
}
