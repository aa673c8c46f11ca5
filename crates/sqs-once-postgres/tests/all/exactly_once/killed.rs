//! Runs the example `reserve` as a real process and kills it with SIGKILL at every message that it sends. Kills the
//! server in the same way.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use postgres_for_tests::Server;
use sqs_once_local::{Event, Function, Launch};
use tokio::task::block_in_place;

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

struct Order {
    id: String,
    event: Event,
}

impl Order {
    fn new(id: String) -> Self {
        let body = format!(r#"{{"order_id":"{id}","sku":"a-7"}}"#);
        let event = Event::parse(&body, "orders").unwrap();
        Self { id, event }
    }

    /// The order has one reservation, and this many pieces are taken.
    async fn assert_taken(&self, place: &Place, pieces: i64) {
        let select = "SELECT count(*), (SELECT 1000 - pieces FROM stock) FROM reservations
            WHERE order_id = $1";
        let client = place.connect().await;
        let row = client.query_one(select, &[&self.id]).await.unwrap();
        let effects: (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(effects, (1, pieces), "{}", self.id);
    }
}

/// Delivers an order until it is acknowledged.
async fn delivered(place: &Place, order: &Event) {
    let function = start(place, place.port).await;
    let acknowledged =
        async { while function.invoke(order.payload(), TIMEOUT).await.unwrap() != ACKNOWLEDGED {} };
    let acknowledged = tokio::time::timeout(TIMEOUT, acknowledged).await;
    acknowledged.expect("an order that nobody disturbs is acknowledged");
}

/// Delivers an order for each message at which the fault occurs, and one more. `deliver` makes the first delivery of an
/// order, of which this many are taken with it, and tells whether the fault occurred.
async fn at_every_message(
    place: &Place,
    fault: ConnectionFault,
    deliver: impl AsyncFn(&Faults, &Proxy, Function, &Order, i64) -> bool,
) {
    let mut killed = 0;
    for step in 0..MOST_STEPS {
        let order = Order::new(format!("{fault:?}-{step}"));
        let faults = Faults::new(FaultSchedule::Once(step, fault), Chance::from_seed(0));
        let proxy = Proxy::to(place.port, &faults).await;
        let function = start(place, proxy.port).await;
        let taken = step as i64 + 1;
        let is_killed = deliver(&faults, &proxy, function, &order, taken).await;
        delivered(place, &order.event).await;
        order.assert_taken(place, taken).await;
        if !is_killed {
            break;
        }
        killed += 1;
    }
    assert!((10..MOST_STEPS).contains(&killed), "killed {killed} times");
}

#[tokio::test]
async fn a_function_that_is_killed_at_any_message_reserves_once() {
    for fault in [ConnectionFault::DieBefore, ConnectionFault::DieAfter] {
        let place = Place::new(&super::SERVER, SHOP).await;
        at_every_message(&place, fault, async |_, proxy, function, order, _| {
            let is_killed = tokio::select! {
                answer = function.invoke(order.event.payload(), TIMEOUT) => {
                    assert_eq!(answer.unwrap(), ACKNOWLEDGED, "{}", order.id);
                    false
                }
                () = proxy.death() => true,
            };
            // Kills the process with SIGKILL.
            drop(function);
            proxy.die();
            is_killed
        })
        .await;
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
    at_every_message(&place, fault, async |faults, _, function, order, taken| {
        let mut invoked = pin!(function.invoke(order.event.payload(), TIMEOUT));
        let (answer, is_killed) = tokio::select! {
            answer = &mut invoked => (answer, false),
            () = faults.struck() => {
                block_in_place(|| {
                    server.kill();
                    server.restart();
                });
                (invoked.await, true)
            }
        };
        // The function survives. It must not acknowledge an effect that the server lost.
        if answer.unwrap() == ACKNOWLEDGED {
            order.assert_taken(&place, taken).await;
        }
        is_killed
    })
    .await;
}
