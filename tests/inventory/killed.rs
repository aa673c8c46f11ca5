//! The process is killed, or loses an answer, at every request that it makes: everything happens once all the same.

use sqs_once_local::Function;

use crate::bench::{Bench, TIMEOUT, run, samples};
use crate::door::{Door, Fate};

/// Everything that the samples want has happened, once.
fn assert_once(bench: &Bench, what: &str) {
    assert_eq!(bench.stock("mug-blue"), Some(10 - 2 - 1), "{what}");
    assert_eq!(bench.stock("kettle"), Some(10 - 1), "{what}");
    for (table, id) in [("OrdersTable", "order_id"), ("OutboxTable", "id")] {
        let all = bench.all(table, id);
        assert_eq!(all, ["o-2001", "o-2002", "o-2003"], "{what}");
    }
    let statuses = bench.all("IdempotencyTable", "status");
    assert_eq!(statuses, ["COMPLETED"; 3], "{what}");
}

/// A process whose requests go through a door.
async fn started(fate: Option<(usize, Fate)>) -> (Bench, Door, Function) {
    let bench = Bench::new().await;
    let door = Door::open(bench.dynamodb.endpoint(), fate).await;
    let launch = bench.launch().env("AWS_ENDPOINT_URL_DYNAMODB", &door.url);
    let function = launch.start().await.unwrap();
    (bench, door, function)
}

/// How many requests a process makes that nothing happens to.
async fn requests() -> usize {
    let (bench, door, function) = started(None).await;
    run(function, &samples()).await;
    assert_once(&bench, "undisturbed");
    door.requests()
}

#[tokio::test]
async fn an_order_is_reserved_once_though_its_process_is_killed_at_any_request() {
    let requests = requests().await;
    // One at the start, and one for each order.
    assert_eq!(requests, 4);
    let event = samples();
    for at in 0..requests {
        for fate in [Fate::DiesBefore, Fate::DiesAfter] {
            let what = format!("request {at}: {fate:?}");
            let (bench, door, function) = started(Some((at, fate))).await;
            tokio::select! {
                answer = function.invoke(event.payload(), TIMEOUT) => panic!("{what}: answered: {answer:?}"),
                () = door.dies() => drop(function),
            }

            // Nothing is claimed before, so there is no lease to wait for.
            let (failures, lines) = bench.run(&event).await;
            assert_eq!(failures, [""; 0], "{what}: {lines:?}");
            assert_once(&bench, &what);
        }
    }
}

#[tokio::test]
async fn an_order_is_reserved_once_though_any_answer_is_lost() {
    let event = samples();
    for at in 0..requests().await {
        let what = format!("answer {at}");
        let (bench, door, function) = started(Some((at, Fate::LosesAnswer))).await;
        let (failures, lines) = run(function, &event).await;
        assert_eq!(failures, [""; 0], "{what}");
        let processed = lines.iter().filter(|line| line.outcome == "processed");
        assert_eq!(processed.count(), 3, "{what}: {lines:?}");
        assert!(door.requests() > 4, "{what}: it was not sent again");
        assert_once(&bench, &what);
    }
}
