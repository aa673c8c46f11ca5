//! Runs the examples `reserve`, `reserve_batch` and `reserve_without_sqs` as real processes and kills them with SIGKILL at every message
//! that they send. Kills the server in the same way.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use postgres_for_tests::Server;
use serde_json::json;
use sqs_once_local::{Event, Function, InvokeError, Launch};
use tokio::task::block_in_place;

use super::chance::Chance;
use super::proxy::ConnectionFault::{DieAfter, DieBefore};
use super::proxy::{ConnectionFault, FaultSchedule, Faults, Proxy};
use super::world::Place;

/// Enough for a loaded machine. No test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// More messages than the function sends for one record, including its start.
const MOST_STEPS: usize = 200;

const SHOP: &str = "CREATE TABLE stock (sku text PRIMARY KEY, pieces bigint);
    CREATE TABLE reservations (order_id text, sku text);
    INSERT INTO stock VALUES ('a-7', 1000);
    GRANT ALL ON stock, reservations TO quick";

/// An example, which Cargo builds with the tests.
#[derive(Clone, Copy, Debug)]
enum Example {
    /// A consumer.
    Reserve,
    /// The same work without a queue.
    ReserveWithoutSqs,
    /// A consumer with a batch handler. Its event has two orders, and one that is refused between them.
    ReserveBatch,
}

impl Example {
    async fn start(self, place: &Place, port: u16) -> Function {
        let name = match self {
            Self::Reserve => "reserve",
            Self::ReserveWithoutSqs => "reserve_without_sqs",
            Self::ReserveBatch => "reserve_batch",
        };
        let test = std::env::current_exe().unwrap();
        let profile: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
        let function = Launch::new(profile.join("examples").join(name))
            .env("SQS_ONCE_NAMESPACE", "shop")
            .env("DATABASE_URL", place.through(port));
        let started = function.start().await;
        started.expect("cargo builds the example with the tests, unless it is told `--test`")
    }

    fn event(self, order: &str) -> Vec<u8> {
        let body = json!({ "order_id": order, "sku": "a-7" });
        match self {
            Self::Reserve => {
                let event = Event::parse(&body.to_string(), "orders").unwrap();
                event.payload().into()
            }
            Self::ReserveWithoutSqs => json!({ "detail": body }).to_string().into(),
            Self::ReserveBatch => {
                let refused = json!({ "order_id": "refused", "sku": "sold out" });
                let refused = json!({ "messageId": "refused", "body": refused.to_string() });
                let second = json!({ "order_id": second(order), "sku": "a-7" });
                let event =
                    Event::parse(&format!("{body}\n{refused}\n{second}"), "orders").unwrap();
                event.payload().into()
            }
        }
    }

    /// The pieces that an event takes.
    fn pieces(self) -> i64 {
        match self {
            Self::Reserve | Self::ReserveWithoutSqs => 1,
            Self::ReserveBatch => 2,
        }
    }

    /// The answer to the order that took this many pieces, once it is done.
    fn done(self, pieces: i64) -> Vec<u8> {
        let answer = match self {
            Self::Reserve => json!({ "batchItemFailures": [] }),
            Self::ReserveWithoutSqs => json!({ "pieces_left": 1000 - pieces }),
            Self::ReserveBatch => json!({ "batchItemFailures": [{ "itemIdentifier": "refused" }] }),
        };
        answer.to_string().into()
    }

    /// Invokes the function. Returns whether the order, which takes this many pieces, is done.
    async fn is_done(self, function: &Function, order: &Order) -> bool {
        match function.invoke(order.event.clone(), TIMEOUT).await {
            Ok(answer) if answer == self.done(order.taken) => true,
            Ok(answer) if answer.starts_with(br#"{"batchItemFailures":[{"#) => false,
            Err(InvokeError::Function(_)) => false,
            other => panic!("{}: {other:?}", order.id),
        }
    }
}

/// The second order of an event that has two.
fn second(order: &str) -> String {
    format!("second of {order}")
}

struct Order {
    id: String,
    event: Vec<u8>,
    /// The pieces of its event.
    pieces: i64,
    /// The pieces that are taken with this order.
    taken: i64,
}

impl Order {
    /// Each order of the event has one reservation, and its pieces are taken.
    async fn assert_taken(&self, place: &Place) {
        let select = "SELECT count(*), (SELECT 1000 - pieces FROM stock) FROM reservations
            WHERE order_id IN ($1, $2, 'refused')";
        let client = place.connect().await;
        let ids = [&self.id, &second(&self.id)];
        let row = client.query_one(select, &[&ids[0], &ids[1]]).await.unwrap();
        let effects: (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(effects, (self.pieces, self.taken), "{}", self.id);
    }
}

/// Delivers an order until it is done.
async fn delivered(place: &Place, example: Example, order: &Order) {
    let function = example.start(place, place.port).await;
    let done = async { while !example.is_done(&function, order).await {} };
    let done = tokio::time::timeout(TIMEOUT, done).await;
    done.expect("an order that nobody disturbs is done");
}

/// Delivers an order for each message at which the fault occurs, and one more. `deliver` makes the first delivery of an
/// order, and tells whether the fault occurred.
async fn at_every_message(
    place: &Place,
    example: Example,
    fault: ConnectionFault,
    deliver: impl AsyncFn(&Faults, &Proxy, Function, &Order) -> bool,
) {
    let mut killed = 0;
    for step in 0..MOST_STEPS {
        let id = format!("{fault:?}-{step}");
        let order = Order {
            event: example.event(&id),
            id,
            pieces: example.pieces(),
            taken: (step as i64 + 1) * example.pieces(),
        };
        let faults = Faults::new(FaultSchedule::Once(step, fault), Chance::from_seed(0));
        let proxy = Proxy::to(place.port, &faults).await;
        let function = example.start(place, proxy.port).await;
        let is_killed = deliver(&faults, &proxy, function, &order).await;
        delivered(place, example, &order).await;
        order.assert_taken(place).await;
        if !is_killed {
            break;
        }
        killed += 1;
    }
    assert!((10..MOST_STEPS).contains(&killed), "killed {killed} times");
}

#[tokio::test]
async fn a_function_that_is_killed_at_any_message_reserves_once() {
    function_is_killed(Example::Reserve, &[DieBefore, DieAfter]).await;
}

#[tokio::test]
async fn a_batch_whose_function_is_killed_at_any_message_reserves_each_order_once() {
    function_is_killed(Example::ReserveBatch, &[DieAfter]).await;
}

#[tokio::test]
async fn a_function_without_sqs_that_is_killed_at_any_message_reserves_once() {
    function_is_killed(Example::ReserveWithoutSqs, &[DieAfter]).await;
}

/// For the server, a death before a message is a death after the message before it.
async fn function_is_killed(example: Example, faults: &[ConnectionFault]) {
    for &fault in faults {
        let place = Place::new(&super::SERVER, SHOP).await;
        at_every_message(&place, example, fault, async |_, proxy, function, order| {
            let is_killed = tokio::select! {
                is_done = example.is_done(&function, order) => {
                    assert!(is_done, "{}", order.id);
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
async fn a_server_killed_before_any_message_keeps_each_reservation_and_its_completion() {
    server_is_killed(ConnectionFault::LoseRequest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_after_any_message_keeps_each_reservation_and_its_completion() {
    server_is_killed(ConnectionFault::LoseAnswer).await;
}

async fn server_is_killed(fault: ConnectionFault) {
    let example = Example::Reserve;
    let server = Server::start();
    let place = Place::new(&server, SHOP).await;
    let deliver = async |faults: &Faults, _: &Proxy, function: Function, order: &Order| {
        let mut done = pin!(example.is_done(&function, order));
        let (is_done, is_killed) = tokio::select! {
            is_done = &mut done => (is_done, false),
            () = faults.struck() => {
                block_in_place(|| {
                    server.kill();
                    server.restart();
                });
                (done.await, true)
            }
        };
        // The function survives. It must not acknowledge an effect that the server lost.
        if is_done {
            order.assert_taken(&place).await;
        }
        is_killed
    };
    at_every_message(&place, example, fault, deliver).await;
}
