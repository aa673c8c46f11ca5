//! A function that a Runtime API drives, with invalid events and signals: its log in its own format, at every level.

#![allow(clippy::print_stdout, reason = "what is printed beside the log")]

use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use sqs_once::Consumer;
use sqs_once::telemetry::Telemetry;
use sqs_once::testing::{Event, Record};
use sqs_once_local::{InvokeError, RuntimeApi};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use super::assert_hidden;
use crate::support::process::{driven_by, this_program};
use crate::support::values;

/// Enough for a loaded machine. No test waits this long.
const TIMEOUT: Duration = Duration::from_secs(30);
const AT_WORK: &str = "the handler is at work";
const SERVES: &str = "TEST_SERVES";

/// Runs a consumer whose handler blocks its thread for ever. Enough threads for those that it blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_function_that_never_ends() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    let blocking = |_: Value| async {
        println!("{AT_WORK}");
        let (_never, holding) = mpsc::channel::<()>();
        // Blocks for ever, since `_never` is dropped later.
        let _ = holding.recv();
    };
    let handler = values().call(blocking).namespace("test");
    let telemetry = Telemetry::new().after_answer(|| panic!("nothing of an event is here"));
    let consumer = Consumer::new(handler).telemetry(telemetry);
    sqs_once::run(consumer).await.unwrap();
}

const INVALID: [&str; 10] = [
    "\"canary\"",
    "canary",
    "[\"canary\"]",
    "{\"canary\": 1}",
    "{\"other\": [\"canary\", }",
    "{\"Records\": \"canary\"}",
    "{\"Records\": {\"canary\": 1}}",
    "{\"Records\": [\"canary\"]}",
    "{\"Records\": [{\"messageId\": {\"canary\": 1}}]}",
    "{\"Records\": [{\"messageId\": \"m-0\", \"body\": \"canary\", \"attributes\": \"canary\"}",
];

/// Sends the function invalid events, an event whose handler does not end in time, and an event that it must not take
/// meanwhile. Then asks it to end, twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_shows_no_part_of_an_event_in_its_log_or_its_answers() {
    let lambda = RuntimeApi::start("orders").await.unwrap();
    let function = this_program(module_path!(), "a_function_that_never_ends");
    let function = driven_by(&lambda, function)
        .arg("--nocapture")
        .env(SERVES, "1")
        .env("AWS_REGION", "eu-central-1")
        .env("RUST_LOG", "trace")
        // Nothing reads stderr meanwhile.
        .env("RUST_BACKTRACE", "0")
        .env("POWERTOOLS_LOGGER_SAMPLE_RATE", "1")
        .env("SQS_ONCE_UNKNOWN", "canary")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for event in INVALID {
        let answer = lambda.invoke(event, TIMEOUT).await;
        assert_hidden(&format!("{answer:?}"));
    }
    let record = Record::text(r#"{"id": "canary-key", "card": "canary"}"#);
    let record = record.attribute("canary-name", "canary").fifo("canary");
    let event = Event::new([record]).as_json().to_owned();
    let answer = lambda.invoke(event.clone(), Duration::from_secs(2)).await;
    assert!(String::from_utf8_lossy(&answer.unwrap()).contains("m-1"));

    // The handler still runs. Lambda would end the process at the function's timeout.
    let lambda = lambda.init_limit(Duration::from_secs(1));
    let taken = lambda.invoke(event, TIMEOUT).await;
    let is_not_taken = matches!(taken, Err(InvokeError::NotTaken { .. }));
    assert!(is_not_taken, "{taken:?}");

    let asked = tokio::time::timeout(TIMEOUT, asked_to_end(function));
    let said = asked.await.expect("it ends");
    assert_hidden(&said);
    assert!(said.contains("the after_answer hook did not complete"));
}

/// Asks a process to end while it handles an event, and again. Returns its output.
async fn asked_to_end(mut function: Child) -> String {
    let mut stdout = BufReader::new(function.stdout.take().unwrap());
    let mut said = Vec::new();
    let pid = function.id().unwrap().to_string();
    let steps = [
        (AT_WORK, false),
        ("did not end in time", true),
        ("asked to end: ", true),
        ("asked to end again", false),
    ];
    for (words, asks_to_end) in steps {
        let mut line = Vec::new();
        while !String::from_utf8_lossy(&line).contains(words) {
            line.clear();
            let read = stdout.read_until(b'\n', &mut line).await.unwrap();
            assert_ne!(read, 0, "it never said {words:?}");
            said.extend(&line);
        }
        if asks_to_end {
            let asked = Command::new("kill").args(["-TERM", &pid]).status();
            assert!(asked.await.unwrap().success());
        }
    }
    stdout.read_to_end(&mut said).await.unwrap();
    let rest = function.wait_with_output().await.unwrap();
    said.extend(rest.stderr);
    String::from_utf8(said).unwrap()
}
