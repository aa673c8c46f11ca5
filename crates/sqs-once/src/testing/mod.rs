//! What the tests of a consumer need: events in a line, a store in memory, time that a test moves, and
//! trouble on request. No AWS, no waiting.
//!
//! ```rust,test_harness
//! use std::sync::{Arc, Mutex};
//!
//! use serde::Deserialize;
//! use serde_json::json;
//! use sqs_once::State;
//! use sqs_once::testing::{Bench, Event};
//!
//! #[derive(Deserialize)]
//! struct OrderPlaced {
//!     order_id: String,
//! }
//!
//! type Ledger = Arc<Mutex<Vec<String>>>;
//!
//! #[sqs_once::handler(key = order.order_id)]
//! async fn charge(order: OrderPlaced, State(ledger): State<Ledger>) {
//!     ledger.lock().unwrap().push(order.order_id);
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn an_order_that_comes_twice_is_charged_once() {
//!     let ledger = Ledger::default();
//!     let bench = Bench::new(charge::consumer().state(ledger.clone()));
//!     let event = Event::new([&json!({ "order_id": "o-1001" })]);
//!
//!     bench.run(&event).await.assert_processed("m-1");
//!     bench.run(&event).await.assert_duplicate("m-1");
//!
//!     assert_eq!(*ledger.lock().unwrap(), ["o-1001"]);
//! }
//! ```
//!
//! The feature `testing` goes into the dev-dependencies, so that the function itself does not carry it:
//!
//! ```toml
//! [dev-dependencies]
//! serde_json = "1"
//! sqs-once = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! `start_paused` (Tokio's feature `test-util`) makes the time of a test pass at once, that of handlers
//! that sleep included. The kit works without it as well.
//!
//! | to see | do |
//! |---|---|
//! | a duplicate | [`run`](Bench::run) the event again, or put the payload into it twice |
//! | a message that was sent again | the same payload with another [`message_id`](Record::message_id) |
//! | a key that another worker has | [`another_worker_claims`](Bench::another_worker_claims) before |
//! | a lease that is lost while the handler runs | the same, meanwhile |
//! | a crash between the effect and its record | [`run_and_crash`](Bench::run_and_crash) |
//! | a lease that lapses, a key that is forgotten | [`advance`](TestClock::advance) the clock |
//! | a store that fails, or whose answer is lost | [`fail`](TestStore::fail), [`lose_answers`](TestStore::lose_answers) |
//! | what a handler wrote by returning [`Writes`](crate::Writes), a condition of these that is not met | [`writes`](TestStore::writes), [`fail_condition`](TestStore::fail_condition) |
//! | what a handler does by itself | call it: it is a plain function; [`parts`](Record::parts) has what extractors see |
//! | a handler that is too slow | let it sleep, with `start_paused` |
//!
//! # A crash
//!
//! The one case in which an effect is repeated. What the handler passes on to whoever has the effect is
//! the same both times:
//!
//! ```rust,test_harness
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use serde_json::{Value, json};
//! use sqs_once::testing::{Bench, Event};
//! use sqs_once::{IdempotencyToken, State};
//!
//! type Tokens = Arc<Mutex<Vec<IdempotencyToken>>>;
//!
//! #[sqs_once::handler(key = order["order_id"].as_str())]
//! async fn charge(order: Value, token: IdempotencyToken, State(tokens): State<Tokens>) {
//!     tokens.lock().unwrap().push(token);
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn a_charge_that_is_repeated_after_a_crash_has_the_same_token() {
//!     let tokens = Tokens::default();
//!     let bench = Bench::new(charge::consumer().state(tokens.clone()));
//!     let event = Event::new([&json!({ "order_id": "o-1001" })]);
//!
//!     bench.run_and_crash(&event).await;
//!     // The lease has not lapsed, so no other worker may run it.
//!     bench.run(&event).await.assert_in_progress("m-1");
//!     // Its lease ends with the invocation, and three seconds more.
//!     bench.clock().advance(Duration::from_secs(34));
//!     bench.run(&event).await.assert_processed("m-1");
//!
//!     let tokens = tokens.lock().unwrap();
//!     assert_eq!(tokens.len(), 2);
//!     assert_eq!(tokens[0], tokens[1]);
//! }
//! ```

mod answer;
mod bench;
mod clock;
mod crash;
mod event;
mod parts;
mod running;
mod settings;
mod store;

pub use answer::Answer;
pub use bench::Bench;
pub use clock::TestClock;
pub use event::{Event, Record};
#[doc(hidden)]
pub use running::Running;
pub use settings::TestSettings;
pub use store::{Operation, TestStore};
