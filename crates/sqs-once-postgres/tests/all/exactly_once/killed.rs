//! Runs the example `reserve` as a real process and kills it with SIGKILL at every message that it sends. Kills the
//! server in the same way.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use postgres_for_tests::Server;
use sqs_once_local::{Event, Function, Launch};
use tokio::task::block_in_place;
use tokio_postgres::Client;

use super::chance::Chance;
use super::proxy::{ConnectionFault, FaultSchedule, Faults, Proxy};
use super::world::Place;

/// Enough for a loaded machine. No test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);
const ACKNOWLEDGED: &[u8] = br#"{"batchItemFailures":[]}"#;
/// More messages than the function sends for one record, including its start.
const MOST_STEPS: usize = 200;

const SHOP: &str = "CREATE TABLE stock (sku text PRIMARY KEY, pieces bigint);
    CREATE TABLE reservations (order_id text, sku text);
    INSERT INTO stock VALUES ('a-7', 1000);
    GRANT ALL ON stock, reservations TO quick";

/// Starts the example, which Cargo builds with the tests.
async fn start(place: &Place, port: u16) -> Function {
    let test = std::env::current_exe().unwrap();
    let profile: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
    let function = Launch::new(profile.join("examples/reserve"))
        .env("SQS_ONCE_NAMESPACE", "shop")
        .env("SQS_ONCE_POSTGRES_URL", place.through(port));
    let started = function.start().await;
    started.expect("cargo builds the example with the tests, unless it is told `--test`")
}

fn order(id: &str) -> Event {
    let body = format!(r#"{{"order_id":"{id}","sku":"a-7"}}"#);
    Event::parse(&body, "orders").unwrap()
}

/// The number of an order's reservations, and of pieces taken.
async fn effects(client: &Client, order: &str) -> (i64, i64) {
    let select =
        "SELECT (SELECT count(*) FROM reservations WHERE order_id = $1), 1000 - pieces FROM stock";
    let row = client.query_one(select, &[&order]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Delivers an order until it is acknowledged.
async fn delivered(place: &Place, order: &Event) {
    let function = start(place, place.port).await;
    let acknowledged =
        async { while function.invoke(order.payload(), TIMEOUT).await.unwrap() != ACKNOWLEDGED {} };
    let acknowledged = tokio::time::timeout(TIMEOUT, acknowledged).await;
    acknowledged.expect("an order that nobody disturbs is acknowledged");
}

fn once(step: usize, fault: ConnectionFault) -> Faults {
    Faults::new(FaultSchedule::Once(step, fault), Chance::from_seed(0))
}

#[tokio::test]
async fn a_function_that_is_killed_at_any_message_reserves_once() {
    let place = Place::new(&super::SERVER, SHOP).await;
    let client = place.connect().await;
    let mut taken = 0;
    for fault in [ConnectionFault::DieBefore, ConnectionFault::DieAfter] {
        let mut killed = 0;
        for step in 0..MOST_STEPS {
            let id = format!("{fault:?}-{step}");
            let order = order(&id);
            let faults = once(step, fault);
            let proxy = Proxy::to(place.port, &faults).await;
            let function = start(&place, proxy.port).await;
            let survived = tokio::select! {
                answer = function.invoke(order.payload(), TIMEOUT) => {
                    assert_eq!(answer.unwrap(), ACKNOWLEDGED, "{id}");
                    true
                }
                () = proxy.death() => false,
            };
            // Kills the process with SIGKILL.
            drop(function);
            proxy.die();
            delivered(&place, &order).await;
            taken += 1;
            assert_eq!(effects(&client, &id).await, (1, taken), "{id}");
            if survived {
                break;
            }
            killed += 1;
        }
        assert!((10..MOST_STEPS).contains(&killed), "killed {killed} times");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_before_any_message_keeps_each_reservation_and_its_record_together()
{
    server_is_killed(ConnectionFault::LoseRequest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_after_any_message_keeps_each_reservation_and_its_record_together()
{
    server_is_killed(ConnectionFault::LoseAnswer).await;
}

async fn server_is_killed(fault: ConnectionFault) {
    let server = Server::start();
    let place = Place::new(&server, SHOP).await;
    let mut taken = 0;
    let mut killed = 0;
    for step in 0..MOST_STEPS {
        let id = format!("{fault:?}-{step}");
        let order = order(&id);
        let faults = once(step, fault);
        let proxy = Proxy::to(place.port, &faults).await;
        let function = start(&place, proxy.port).await;
        let mut invoked = pin!(function.invoke(order.payload(), TIMEOUT));
        let mut answer = None;
        tokio::select! {
            invoked = &mut invoked => answer = Some(invoked),
            () = faults.struck() => {
                block_in_place(|| {
                    server.kill();
                    server.restart();
                });
                killed += 1;
            }
        }
        let survived = answer.is_some();
        let answer = match answer {
            Some(answer) => answer,
            None => invoked.await,
        };
        // The function survives. It must not acknowledge an effect that the server lost.
        let client = place.connect().await;
        if answer.unwrap() == ACKNOWLEDGED {
            assert_eq!(effects(&client, &id).await, (1, taken + 1), "{id}");
        }
        delivered(&place, &order).await;
        taken += 1;
        assert_eq!(effects(&client, &id).await, (1, taken), "{id}");
        if survived {
            break;
        }
    }
    assert!((10..MOST_STEPS).contains(&killed), "killed {killed} times");
}
