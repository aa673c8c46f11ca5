//! The process is killed, or loses an answer, at every request that it makes: everything happens once all the same.

use std::iter::repeat_n;
use std::sync::Arc;

use network_for_tests::{Death, Turn, Wire};
use sqs_once_local::Function;
use tokio::sync::Notify;

use crate::bench::{Bench, TIMEOUT, run, samples};

/// A process whose request with this index, counted from 0, takes this turn.
async fn started(at: usize, turn: Turn) -> (Bench, Wire, Function) {
    let bench = Bench::new().await;
    let wire = Wire::to(&bench.dynamodb.endpoint()).await;
    wire.next(repeat_n(Turn::Pass, at).chain([turn]));
    let launch = bench.launch();
    let launch = launch.env("AWS_ENDPOINT_URL_DYNAMODB", wire.endpoint());
    let function = launch.start().await.unwrap();
    (bench, wire, function)
}

/// How many requests a process makes that nothing happens to.
async fn requests() -> usize {
    let (bench, wire, function) = started(0, Turn::Pass).await;
    run(function, &samples()).await;
    bench.assert_once("undisturbed");
    wire.seen().len()
}

#[tokio::test]
async fn an_order_is_reserved_once_though_its_process_is_killed_at_any_request() {
    let requests = requests().await;
    // One at the start, and one for each order.
    assert_eq!(requests, 4);
    let event = samples();
    for at in 0..requests {
        for death in [Death::Before, Death::After] {
            let what = format!("{death:?} request {at}");
            let dies = Arc::new(Notify::new());
            let die = Turn::Die(death, Arc::clone(&dies));
            let (bench, _wire, function) = started(at, die).await;
            tokio::select! {
                answer = function.invoke(event.payload(), TIMEOUT) => panic!("{what}: answered: {answer:?}"),
                () = dies.notified() => drop(function),
            }

            // Nothing is claimed before, so there is no lease to wait for.
            let (failures, lines) = bench.run(&event).await;
            assert_eq!(failures, [""; 0], "{what}: {lines:?}");
            bench.assert_once(&what);
        }
    }
}

#[tokio::test]
async fn an_order_is_reserved_once_though_any_answer_is_lost() {
    let event = samples();
    for at in 0..requests().await {
        let what = format!("answer {at}");
        let (bench, wire, function) = started(at, Turn::LoseAnswer).await;
        let (failures, lines) = run(function, &event).await;
        assert_eq!(failures, [""; 0], "{what}");
        let processed = lines.iter().filter(|line| line.outcome == "processed");
        assert_eq!(processed.count(), 3, "{what}: {lines:?}");
        assert!(wire.seen().len() > 4, "{what}: it was not sent again");
        bench.assert_once(&what);
    }
}
