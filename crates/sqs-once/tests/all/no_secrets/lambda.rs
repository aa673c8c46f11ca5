//! A function that a Runtime API drives, including invalid events and signals.

use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use sqs_once_local::{InvokeError, RuntimeApi};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::no_secrets::world::{Order, id, order, record};
use crate::support::process::driven_by;

/// Enough for a loaded machine. No test waits this long.
const TIMEOUT: Duration = Duration::from_secs(30);
const AT_WORK: &str = "the handler is at work";

/// Runs a consumer whose handler blocks its thread for ever.
pub(crate) async fn serve() {
    let blocking = |_: Order| async {
        println!("{AT_WORK}");
        let (_never, holding) = mpsc::channel::<()>();
        // Blocks for ever, since `_never` is dropped later.
        let _ = holding.recv();
    };
    let consumer = sqs_once::consumer::<Order>()
        .key(id)
        .handler(blocking)
        .namespace("test")
        .after_answer(|| panic!("nothing of an event is here"));
    sqs_once::run(consumer).await.unwrap();
}

/// Sends the function an invalid event, an event whose handler does not end in time, and an event that it must not take
/// meanwhile. Then asks it to end, twice.
pub(crate) async fn drive(process: std::process::Command) -> Output {
    let lambda = RuntimeApi::start("orders").await.unwrap();
    let function = driven_by(&lambda, process)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = String::new();
    for event in [
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
    ] {
        let answer = lambda.invoke(event, TIMEOUT).await;
        answers.push_str(&format!("answered: {answer:?}\n"));
    }
    let event = json!({ "Records": [record(0, &order("a"))] }).to_string();
    let answer = lambda.invoke(event.clone(), Duration::from_secs(1)).await;
    assert!(String::from_utf8_lossy(&answer.unwrap()).contains("m-0"));

    // The handler still runs. Lambda would end the process at the function's timeout.
    let lambda = lambda.init_limit(Duration::from_secs(1));
    let taken = lambda.invoke(event, TIMEOUT).await;
    let is_not_taken = matches!(taken, Err(InvokeError::NotTaken { .. }));
    assert!(is_not_taken, "{taken:?}");

    let asked = tokio::time::timeout(TIMEOUT, asked_to_end(function, answers));
    asked.await.expect("it ends")
}

/// Asks a process to end while it handles an event, and again.
async fn asked_to_end(mut function: Child, answers: String) -> Output {
    let mut stdout = BufReader::new(function.stdout.take().unwrap());
    let mut said = answers.into_bytes();
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
    Output {
        stdout: said,
        ..rest
    }
}
