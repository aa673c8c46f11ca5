//! Blocking work in a thread of its own: real threads, real time.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once::store::Status;
use sqs_once::testing::{Bench, Event};
use sqs_once::{Consumer, HandlerError, consumer};
use tokio::task::spawn_blocking;

/// Longer than any machine needs; only a test that fails waits for it.
const AGES: Duration = Duration::from_secs(20);

/// A consumer whose handler blocks for the order `slow` until it is told to go on, and calls `done`
/// at the end of each order's work.
fn blocking<F>(go_on: Receiver<()>, done: F) -> Consumer
where
    F: Fn(&str) + Send + Sync + 'static,
{
    let shared = Arc::new((Mutex::new(go_on), done));
    consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .handler(move |order: Value| {
            let shared = Arc::clone(&shared);
            async move {
                spawn_blocking(move || {
                    let (go_on, done) = &*shared;
                    let id = order["id"].as_str().unwrap_or_default();
                    if id == "slow" {
                        go_on.lock().unwrap().recv_timeout(AGES)?;
                    }
                    done(id);
                    Ok::<_, HandlerError>(())
                })
                .await?
            }
        })
}

fn slow_and_quick() -> Event {
    Event::of([&json!({ "id": "slow" }), &json!({ "id": "quick" })])
}

/// On the one thread that there is, the quick order ends what the slow one waits for.
#[tokio::test(flavor = "current_thread")]
async fn blocking_work_in_a_thread_of_its_own_holds_up_no_other_record() {
    let (tell, told) = channel();
    let bench = Bench::new(blocking(told, move |id| {
        if id == "quick" {
            tell.send(()).unwrap();
        }
    }));
    let answer = bench.timeout(2 * AGES).run(slow_and_quick()).await;
    answer.assert_processed("m-1").assert_processed("m-2");
}

#[tokio::test(flavor = "current_thread")]
async fn blocking_work_in_a_thread_of_its_own_does_not_hold_up_the_answer_and_goes_on_after_it() {
    let (tell, told) = channel();
    let (end, ended) = channel();
    let bench = Bench::new(blocking(told, move |id| {
        // The quick one's end may be nobody's concern any more.
        let _ = end.send(id.to_owned());
    }));
    let bench = bench.timeout(Duration::from_secs(2));
    let answer = bench.run(slow_and_quick()).await;
    answer
        .assert_failed("m-1")
        .assert_reason("m-1", "cancelled at the deadline");

    tell.send(()).unwrap();
    let ends = || ended.recv_timeout(AGES).unwrap();
    let mut last = ends();
    while last != "slow" {
        last = ends();
    }
    // Nobody was there to record it.
    let item = bench.item("slow").await.unwrap();
    assert_eq!(item.status, Status::InProgress);
}
