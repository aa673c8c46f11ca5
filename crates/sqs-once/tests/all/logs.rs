//! The lines that a process writes to stdout after `sqs_once::run` has set up logging. A process has one subscriber and
//! one stdout, so each test starts its own process.

#![allow(clippy::print_stdout, reason = "what is printed beside the log")]

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::process::{Process, is_logging};
use crate::support::{TestStore, assert_contains, invoke, named, values};
use lambda_runtime::Context;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sqs_once::key::Ids;
use sqs_once::store::{StoreError, StoreErrorKind};
use sqs_once::testing::Event;
use sqs_once::{Consumer, HandlerError};
use tracing::field::Empty;
use tracing::{debug, debug_span, error_span, info, info_span, warn};

/// A line without its timestamp, which must be valid.
fn without_timestamp(line: &str) -> Value {
    let mut members: Map<String, Value> = serde_json::from_str(line).unwrap();
    for name in members.keys() {
        let name = format!("{}:", Value::from(&**name));
        assert_eq!(line.matches(&name).count(), 1, "{name} stands twice");
    }
    let timestamp = members.remove("timestamp").unwrap();
    let shape = timestamp.as_str().unwrap();
    let shape = shape.replace(|char: char| char.is_ascii_digit(), "0");
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    Value::Object(members)
}

#[derive(Debug, thiserror::Error)]
#[error("charge refused")]
struct Refused(#[source] std::num::ParseIntError);

/// A value with this debug form.
struct Shown(fn(&mut fmt::Formatter<'_>) -> fmt::Result);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0(f)
    }
}

/// Logs while it is formatted.
const TALKATIVE: Shown = Shown(|f| {
    info!(said = "inside", "while it is formatted");
    f.write_str("talkative")
});
/// Its formatting fails.
const BROKEN: Shown = Shown(|f| f.write_str("so \"far\"").and(Err(fmt::Error)));
const PANICKING: Shown = Shown(|f| {
    f.write_str("half a value")?;
    panic!("no more");
});

#[tokio::test]
async fn in_a_process_that_logs_all_there_is() {
    if !is_logging().await {
        return;
    }
    info!(amount_cents = 1299, currency = "EUR", "charged {}", "o-1");
    println!("the user's own line");
    debug!("below the level");
    warn!(
        a = u128::MAX,
        b = i128::MIN,
        c = Some("given"),
        d = None::<u32>,
        "numbers"
    );
    info!(a = f64::NAN, b = f64::INFINITY, c = f64::NEG_INFINITY);
    info!("a \"quoted\"\nname" = 1, dotted.name = 2, r#type = 3);
    info!(timestamp = 1, level = 2, target = 3, "reserved");
    info!(n = 1, other = "between", n = 2, "twice");
    let refused = Refused("x".parse::<u8>().unwrap_err());
    info!(error = &refused as &(dyn Error + 'static), "refused");

    let outer = info_span!("outer", requestId = "r-1", shared = "outer", own = "outer");
    let inner =
        outer.in_scope(|| error_span!("inner", later = Empty, shared = "inner", own = "inner"));
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

    info!(value = ?TALKATIVE, "outside");
    info_span!("span", value = ?TALKATIVE).in_scope(|| info!("in its span"));
    let late = info_span!("span", value = Empty);
    late.record("value", tracing::field::debug(TALKATIVE));
    late.in_scope(|| info!("recorded in its span"));
    info!(value = ?BROKEN, after = 1, "broken");
    catch_unwind(AssertUnwindSafe(|| info!(value = ?PANICKING, "never"))).unwrap_err();
    info!("after a panic");
    std::process::exit(0);
}

#[test]
fn a_line_is_one_json_object_with_all_fields_at_its_top() {
    let while_formatted = || json!({ "said": "inside", "message": "while it is formatted" });
    let process = Process::start(module_path!(), "in_a_process_that_logs_all_there_is", &[]);
    let lines = process.rest();
    let (refusal, lines) = lines.split_first().unwrap();
    let refusal = without_timestamp(refusal);
    assert_eq!(refusal["level"], "ERROR");
    assert_eq!(refusal["message"], "the function can't start");
    assert_contains!(refusal["error"].as_str().unwrap(), "SQS_ONCE_TABLE");

    assert_eq!(lines[1], "the user's own line");
    let log = lines.iter().filter(|line| **line != "the user's own line");
    let log: Vec<_> = log.map(|line| without_timestamp(line)).collect();
    let expected = [
        json!({ "message": "charged o-1", "amount_cents": 1299, "currency": "EUR" }),
        json!({
            "level": "WARN", "message": "numbers", "a": u128::MAX as f64, "b": i128::MIN as f64,
            "c": "given",
        }),
        json!({ "a": null, "b": null, "c": null }),
        json!({ "a \"quoted\"\nname": 1, "dotted.name": 2, "type": 3 }),
        json!({ "message": "reserved", "timestamp_": 1, "level_": 2, "target_": 3 }),
        json!({ "message": "twice", "n": 2, "other": "between" }),
        json!({ "message": "refused", "error": "charge refused: invalid digit found in string" }),
        json!({ "message": "in both", "own": "event", "shared": "inner", "requestId": "r-1" }),
        json!({
            "message": "later", "own": "inner", "shared": "inner", "later": "now", "requestId": "r-1",
        }),
        json!({
            "message": "changed", "own": "longer", "shared": "changed", "later": "now",
            "requestId": "r-1",
        }),
        json!({
            "message": "in the outer one", "own": "outer", "shared": "outer", "requestId": "r-1",
        }),
        json!({ "message": "in none" }),
        json!({
            "message": "in one that is shown", "own": "outer", "shared": "outer", "requestId": "r-1",
        }),
        while_formatted(),
        json!({ "message": "outside", "value": "talkative" }),
        // The log and the trace each format the fields of spans.
        while_formatted(),
        while_formatted(),
        json!({ "message": "in its span", "value": "talkative" }),
        while_formatted(),
        while_formatted(),
        json!({ "message": "recorded in its span", "value": "talkative" }),
        json!({ "message": "broken", "value": "so \"far\"", "after": 1 }),
        json!({ "message": "after a panic" }),
    ];
    for (line, fields) in log.iter().zip(&expected) {
        let mut expected = json!({ "level": "INFO", "target": module_path!() });
        let fields = fields.as_object().unwrap().clone();
        expected.as_object_mut().unwrap().extend(fields);
        assert_eq!(*line, expected);
    }
    assert_eq!(log.len(), expected.len());
}

/// The event that a process logs in nested spans.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    message: String,
    text: String,
    /// The spans' text: as a plain value, recorded later, and formatted by `Debug`.
    spanned: String,
    /// As bits, since JSON cannot represent every float.
    float: u64,
    signed: i64,
    unsigned: u64,
    /// As text, since the JSON parser would read it as a float.
    wide: String,
    flag: bool,
}

impl Told {
    fn log(&self) {
        let plain = &self.spanned;
        let outer = info_span!("outer", plain, text = "hidden", later = Empty);
        outer.record("later", "not yet").record("later", plain);
        let _outer = outer.entered();
        let _inner = info_span!("inner", debugged = ?self.spanned).entered();
        info!(
            text = self.text,
            float = f64::from_bits(self.float),
            signed = self.signed,
            unsigned = self.unsigned,
            wide = self.wide.parse::<i128>().unwrap(),
            flag = self.flag,
            "{}",
            self.message
        );
    }

    fn check(&self, line: &str) {
        let raw = |number: &str| {
            let (_, value) = line.split_once(&format!("\"{number}\":")).unwrap();
            value.split([',', '}']).next().unwrap()
        };
        let float = f64::from_bits(self.float);
        match float.is_finite() {
            true => assert_eq!(raw("float").parse::<f64>(), Ok(float)),
            false => assert_eq!(raw("float"), "null"),
        }
        assert_eq!(raw("wide"), self.wide);
        let mut line = without_timestamp(line);
        let members = line.as_object_mut().unwrap();
        assert!(members.remove("float").is_some() && members.remove("wide").is_some());
        let expected = json!({
            "level": "INFO", "target": module_path!(), "message": self.message, "text": self.text,
            "plain": self.spanned, "later": self.spanned, "debugged": format!("{:?}", self.spanned),
            "signed": self.signed, "unsigned": self.unsigned, "flag": self.flag,
        });
        assert_eq!(line, expected);
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let special = "\"\\/\n\r\t\u{0}\u{8}\u{c}\u{1f}\u{7f}\u{85}\u{2028}\u{2029}\u{feff}";
    let special = prop::sample::select(special.chars().collect::<Vec<_>>());
    let chars = prop_oneof![any::<char>(), special, prop::char::range(' ', '~')];
    prop::collection::vec(chars, 0..60).prop_map(String::from_iter)
}

fn anything() -> impl Strategy<Value = Told> {
    let texts = [any_text(), any_text(), any_text()];
    let numbers = (any::<f64>(), any::<i64>(), any::<u64>(), any::<i128>());
    (texts, numbers, any::<bool>()).prop_map(
        |([message, text, spanned], (float, signed, unsigned, wide), flag)| Told {
            message,
            text,
            spanned,
            float: float.to_bits(),
            signed,
            unsigned,
            wide: wide.to_string(),
            flag,
        },
    )
}

const LOGS_WHAT_IT_IS_TOLD: &str = "in_a_process_that_logs_what_it_is_told";

#[tokio::test]
async fn in_a_process_that_logs_what_it_is_told() {
    if !is_logging().await {
        return;
    }
    for told in std::io::stdin().lines() {
        let told: Told = serde_json::from_str(&told.unwrap()).unwrap();
        told.log();
    }
    std::process::exit(0);
}

#[test]
fn whatever_is_logged_comes_back_from_one_line() {
    let mut process = Process::start(module_path!(), LOGS_WHAT_IT_IS_TOLD, &[]);
    process.line();
    let process = std::cell::RefCell::new(process);
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(told in anything())| {
        let mut process = process.borrow_mut();
        process.tell(&told);
        told.check(&process.line());
    });
}

#[test]
fn a_line_that_nobody_reads_harms_nobody() {
    let Process {
        mut child,
        mut input,
        output,
    } = Process::start(module_path!(), LOGS_WHAT_IT_IS_TOLD, &[]);
    drop(output);
    let told = json!({
        "message": "", "text": "", "spanned": "", "float": 0, "signed": 0, "unsigned": 0, "wide": "0",
        "flag": true,
    });
    writeln!(input, "{told}").unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Text that would forge a log line if it were not escaped.
const FORGED: &str =
    "\n2030-01-01T00:00:00.000000Z ERROR forged: everything is fine\r\u{1b}[2K\u{85}\u{2028}";

fn saying() -> StoreError {
    StoreError::new(StoreErrorKind::Other, FORGED)
}

#[tokio::test]
async fn in_a_process_whose_messages_forge_lines() {
    if !is_logging().await {
        return;
    }
    let id = |name: &str| format!("{name}{FORGED}");
    let record = named(id("key"))
        .message_id(id("message"))
        .attribute("correlation-id", id("correlation"))
        .attribute(id("name"), id("value"))
        .fifo(id("group"));
    let event = Event::new([record]);
    let handler = values()
        .call(async |_: Value| -> Result<(), HandlerError> { Err(FORGED.into()) })
        .on_failure(async |_| Err(FORGED.into()))
        .ids(Ids::readable())
        .namespace("logs");
    let store = TestStore::default;
    for store in [
        store(),
        store().refusing_claims(|_| Some(saying())),
        store().refusing_settlements(|_| Some(saying())),
    ] {
        let consumer = Consumer::new(handler.clone()).store(store);
        consumer.init().await.unwrap();
        invoke(&consumer, &event, Context::default()).await;
    }
    std::process::exit(0);
}

#[test]
fn nothing_that_comes_from_outside_forges_a_line() {
    for format in ["JSON", "Text"] {
        let test = "in_a_process_whose_messages_forge_lines";
        let variables = [("AWS_LAMBDA_LOG_FORMAT", format)];
        let lines = Process::start(module_path!(), test, &variables).rest();
        assert_contains!(lines.concat(), "forged");
        for line in lines {
            let is_ours = match format {
                "JSON" => line.starts_with("{\"timestamp\":\"2"),
                _ => line.starts_with("20") && !line.starts_with("2030"),
            };
            assert!(is_ours && !line.contains(['\u{1b}', '\r']), "{line:?}");
        }
    }
}
