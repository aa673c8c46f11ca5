//! Tools for the tests of a consumer: events from one line of code, a store in memory, a clock that the test controls,
//! and failures on demand. Tests need no AWS and do not wait.
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
//! #[sqs_once::handler(key = order.order_id, namespace = "charges")]
//! async fn charge(order: OrderPlaced, State(ledger): State<Ledger>) {
//!     ledger.lock().unwrap().push(order.order_id);
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn an_order_that_comes_twice_is_charged_once() {
//!     let ledger = Ledger::default();
//!     let bench = Bench::new(charge::consumer(ledger.clone()));
//!     let event = Event::new([&json!({ "order_id": "o-1001" })]);
//!
//!     bench.run(&event).await.assert_processed("m-1");
//!     bench.run(&event).await.assert_duplicate("m-1");
//!
//!     assert_eq!(*ledger.lock().unwrap(), ["o-1001"]);
//! }
//! ```
//!
//! Enable the feature `testing` in the dev-dependencies, so that it is not part of the function:
//!
//! ```toml
//! [dev-dependencies]
//! serde_json = "1"
//! sqs-once = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! With `start_paused` (Tokio's feature `test-util`), sleeping takes no time in a test, and handlers that sleep return
//! at once. The tools also work without it.
//!
//! | to test | do |
//! |---|---|
//! | a duplicate | [`run`](Bench::run) the event again, or put the payload into it twice |
//! | a message that was sent again | use the same payload with another [`message_id`](Record::message_id) |
//! | a key that another worker has claimed | call [`another_worker_claims`](Bench::another_worker_claims) first |
//! | a lease that is lost while the handler runs | call `another_worker_claims` while the handler runs |
//! | a crash between the effect and its completion | call [`run_and_crash`](Bench::run_and_crash) |
//! | a lease that lapses, a key that expires | [`advance`](TestClock::advance) the clock |
//! | a store that fails, or an answer that is lost | call [`fail`](TestStore::fail) or [`lose_answers`](TestStore::lose_answers) |
//! | the [`Writes`](crate::Writes) that handlers return, a condition that is not met | call [`writes`](TestStore::writes) or [`fail_condition`](TestStore::fail_condition) |
//! | a handler alone | call it: it is a plain function; [`parts`](Record::parts) creates the input of extractors |
//! | a handler that is too slow | let it sleep, with `start_paused` |
//!
//! # A crash
//!
//! A crash is the only case in which an effect is repeated. The handler then sends the same token both times:
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
//! #[sqs_once::handler(key = order["order_id"].as_str(), namespace = "charges")]
//! async fn charge(order: Value, token: IdempotencyToken, State(tokens): State<Tokens>) {
//!     tokens.lock().unwrap().push(token);
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn a_charge_that_is_repeated_after_a_crash_has_the_same_token() {
//!     let tokens = Tokens::default();
//!     let bench = Bench::new(charge::consumer(tokens.clone()));
//!     let event = Event::new([&json!({ "order_id": "o-1001" })]);
//!
//!     bench.run_and_crash(&event).await;
//!     // The lease has not lapsed, so no other worker may run it.
//!     bench.run(&event).await.assert_in_progress("m-1");
//!     // The lease ends three seconds after the invocation.
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
mod event;
mod parts;
#[cfg(feature = "unstable")]
pub(crate) mod running;
pub(crate) mod settings;
mod store;

pub use answer::Answer;
pub use bench::Bench;
pub use clock::TestClock;
pub use event::{Event, Record};
pub use store::{Operation, TestStore};
