//! When a function asks for its next event, with real threads and a Runtime API.

#![allow(clippy::print_stdout, reason = "what is printed beside the log")]

use std::env;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use sqs_once::store::{MemoryStore, StoreErrorKind};
use sqs_once::testing::{Operation, TestStore};
use sqs_once::{Consumer, Handler, HandlerError, spawn_blocking};
use sqs_once_local::{InvokeError, RuntimeApi};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::support::process::{driven_by, this_program};
use crate::support::values;

/// The variable that chooses the thread that the handler blocks.
const BLOCKS: &str = "TEST_BLOCKS";
/// Enough for a loaded machine. No test waits this long.
const LIMIT: Duration = Duration::from_secs(30);

/// Lets a function use its store.
const ENABLED: (&str, &str) = ("SQS_ONCE_DISABLED", "false");
const EMPTY: &str = r#"{"batchItemFailures":[]}"#;

/// Starts one of the functions below. Returns it when it asks for its first event.
async fn start(function: &str, variables: &[(&str, &str)]) -> (RuntimeApi, Child) {
    let lambda = RuntimeApi::start("orders").await.unwrap().init_limit(LIMIT);
    let function = driven_by(&lambda, this_program(module_path!(), function))
        .arg("--nocapture")
        .env("AWS_REGION", "eu-central-1")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    lambda.ready().await.unwrap();
    (lambda, function)
}

/// Blocks until the process's standard input is closed.
fn block() {
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Writes to standard output until the reader reads no more.
fn write() {
    loop {
        println!("{}", "-".repeat(1000));
    }
}

/// A handler that blocks this thread, or waits if its order says so.
fn blocking(thread: String) -> Handler {
    let handler = values().call(move |order: serde_json::Value| {
        let is_own = thread == "its own";
        async move {
            match order["id"].as_str() {
                Some("waits") => sleep(Duration::from_secs(5)).await,
                Some("writes") => spawn_blocking(write).await?,
                _ if is_own => block(),
                _ => spawn_blocking(block).await?,
            }
            Ok::<_, HandlerError>(())
        }
    });
    handler.namespace("test")
}

/// Serves a consumer whose handler blocks until the process's standard input is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_function_whose_handler_blocks() {
    let Ok(thread) = env::var(BLOCKS) else {
        return;
    };
    sqs_once::run(blocking(thread)).await.unwrap();
}

#[tokio::test]
async fn a_function_asks_for_no_event_until_the_code_of_its_handlers_has_ended() {
    for thread in ["its own", "one of spawn_blocking"] {
        let function = "a_function_whose_handler_blocks";
        let (lambda, mut function) = start(function, &[(BLOCKS, thread)]).await;
        // Long enough for a loaded machine to answer at the deadline.
        let answer = lambda.invoke(event_of("o-1"), Duration::from_secs(5));
        let returned = json!({ "batchItemFailures": [{ "itemIdentifier": "m-1" }] });
        assert_eq!(answer.await.unwrap(), returned.to_string(), "{thread}");

        let lambda = lambda.init_limit(Duration::from_secs(1));
        let asks = lambda.ready().await;
        let asks_not = matches!(asks, Err(InvokeError::NotTaken { .. }));
        assert!(asks_not, "{thread}: {asks:?}");

        // The handler's code ends.
        drop(function.stdin.take());
        let lambda = lambda.init_limit(LIMIT);
        lambda.ready().await.unwrap();
        let answer = lambda.invoke(event_of("o-1"), LIMIT).await.unwrap();
        assert_eq!(answer, EMPTY, "{thread}");

        function.start_kill().unwrap();
        let output = function.wait_with_output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        for count in ["StillRunning", "DeadlineHits"] {
            assert!(said.contains(&format!("\"{count}\":1")), "{thread}: {said}");
        }
        let mut warnings = said.lines().filter(|line| line.contains("WARN"));
        let is_named = warnings.any(|line| line.contains("next_event::blocking"));
        assert!(is_named, "{thread}: no warning names the handler: {said}");
    }
}

/// Serves a consumer whose renewals fail. Its handler blocks until the process ends, or waits.
async fn a_function_that_cannot_renew() {
    let Ok(thread) = env::var(BLOCKS) else {
        return;
    };
    let store = TestStore::default();
    store.fail(Operation::Renew, StoreErrorKind::Unanswered, usize::MAX);
    let consumer = Consumer::new(blocking(thread)).store(store);
    sqs_once::run(consumer).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_function_that_cannot_renew_on_four_threads() {
    a_function_that_cannot_renew().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_function_that_cannot_renew_on_one_thread() {
    a_function_that_cannot_renew().await;
}

fn event_of(id: &str) -> String {
    let body = json!({ "id": id }).to_string();
    json!({ "Records": [{ "messageId": "m-1", "body": body }] }).to_string()
}

#[tokio::test]
async fn a_process_whose_code_can_not_keep_its_key_answers_the_others_and_ends_itself() {
    let on_four = "a_function_that_cannot_renew_on_four_threads";
    let on_one = "a_function_that_cannot_renew_on_one_thread";
    for (function, thread, places) in [
        (on_four, "its own", "2"),
        (on_four, "one of spawn_blocking", "2"),
        (on_one, "its own", "1"),
        (on_one, "its own", "2"),
    ] {
        // One that blocks every thread, whatever else is in flight.
        let is_blocked = function == on_one;
        let at_once = ("AWS_LAMBDA_MAX_CONCURRENCY", places);
        let metrics = ("SQS_ONCE_METRICS", "emf");
        let variables = [ENABLED, (BLOCKS, thread), at_once, metrics];
        let (lambda, mut function) = start(function, &variables).await;
        let waits = async {
            if places == "2" {
                let answer = lambda.invoke(event_of("waits"), LIMIT).await;
                assert_eq!(answer.is_ok_and(|answer| answer == EMPTY), !is_blocked);
            }
        };
        let blocks = lambda.invoke(event_of("blocks"), Duration::from_secs(2));
        let ((), answer) = tokio::join!(waits, blocks);
        assert_eq!(answer.is_ok(), !is_blocked, "{answer:?}");
        let _stdin = function.stdin.take();
        let output = timeout(LIMIT, function.wait_with_output()).await.unwrap();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("this process ends itself"), "{said}");
        let waits = said.contains("when the others are answered");
        assert_eq!(waits, !is_blocked, "{said}");
        assert_eq!(said.contains("\"Draining\":1"), !is_blocked, "{said}");
    }
}

#[tokio::test]
async fn a_process_that_can_not_keep_its_key_ends_itself_even_if_nothing_can_be_logged() {
    let function = "a_function_that_cannot_renew_on_four_threads";
    let variables = [ENABLED, (BLOCKS, "one that writes")];
    let (lambda, mut function) = start(function, &variables).await;
    let _ = lambda
        .invoke(event_of("writes"), Duration::from_secs(2))
        .await;
    // This test does not read its standard output.
    let ended = timeout(LIMIT, function.wait()).await.unwrap();
    assert_eq!(ended.unwrap().code(), Some(1));
}

/// The variable that starts the function below.
const LATE: &str = "SQS_ONCE_TEST_LATE";
const DONE: &str = "the key is completed";

/// Serves a consumer that answers the batch of an effect when the process's standard input is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_function_whose_answer_is_late() {
    if env::var(LATE).is_err() {
        return;
    }
    let handler = values()
        .call(async |_: serde_json::Value| {})
        .namespace("test")
        .on_done(async |_| {
            println!("{DONE}");
            block();
            Ok(())
        });
    let consumer = Consumer::new(handler).store(MemoryStore::default());
    sqs_once::run(consumer).await.unwrap();
}

#[tokio::test]
async fn a_batch_whose_answer_is_gone_comes_back_and_ends_as_duplicates() {
    let (lambda, mut function) =
        start("a_function_whose_answer_is_late", &[ENABLED, (LATE, "1")]).await;
    let ids = ["m-1", "m-2"];
    let records = ids.map(|id| json!({ "messageId": id, "body": json!({ "id": id }).to_string() }));
    let event = json!({ "Records": records }).to_string();
    let mut output = BufReader::new(function.stdout.take().unwrap()).lines();
    tokio::select! {
        answer = lambda.invoke(event.clone(), LIMIT) => panic!("{answer:?}"),
        // The invocation ends without its answer, as at the timeout.
        () = async { while output.next_line().await.unwrap().unwrap() != DONE {} } => {}
    }

    drop(function.stdin.take());
    lambda.ready().await.unwrap();
    let answer = lambda.invoke(event, LIMIT).await.unwrap();
    assert_eq!(answer, EMPTY);
    function.start_kill().unwrap();
    let mut said = Vec::new();
    while let Some(line) = output.next_line().await.unwrap() {
        said.push(line);
    }
    let count = |text: &str| said.iter().filter(|line| line.contains(text)).count();
    let refused = "invocation timed out or response was stale";
    assert_eq!(count(refused), 1, "{said:#?}");
    for outcome in ["processed", "duplicate"] {
        assert_eq!(count(&format!("outcome=\"{outcome}\"")), 2, "{said:#?}");
    }
}
