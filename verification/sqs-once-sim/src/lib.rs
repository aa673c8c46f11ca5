//! Verifies the protocol of sqs-once in two ways. [`model`] visits every state that a small system can reach.
//! [`simulation`] runs whole consumers in simulated time, with failing processes, clocks, queues and networks.
//!
//! ```sh
//! cargo run --release -p sqs-once-sim -- model              # every configuration
//! cargo run --release -p sqs-once-sim -- model --config claim-first-crash --threads 2
//! cargo run --release -p sqs-once-sim -- --seeds 100000     # simulated schedules, one per seed
//! cargo run --release -p sqs-once-sim -- --seed 42          # the timeline of one schedule
//! cargo run --release -p sqs-once-sim -- mutants            # switches each guard off, and finds a seed that shows it
//! cargo test -p sqs-once-sim                                # a short run of all of this
//! ```
//!
//! # The model
//!
//! ```
//! use sqs_once_sim::model::{Config, check};
//!
//! let config = Config::small().remove(0);
//! let verdict = check(&config, 1);
//! assert!(verdict.is_as_expected(), "{verdict}");
//! ```
//!
//! ## The library's part and the model's part
//!
//! The library's own functions make the protocol's decisions: whether a write is admitted, what it writes, and what its
//! answer means to the sender. The model calls `Claim::admitted_by` and `write`, `Settlement::admitted_by` and `write`,
//! `on_claimed`, `on_refused`, `on_found`, `on_completed` and `on_committed`, and `Change::write` of `sqs-once-operate`.
//! For a key with two ids, it also calls `on_found_under_other_id`, `takes_over`, `carried_over` and `ends_refused`.
//! The model itself decides when a worker sends a request, runs a handler, settles a record, stops waiting, and answers,
//! and whether a token is too old. It does so as the library's batches do.
//!
//! ## In the model
//!
//! - Three workers with clocks that differ, deliveries, visibility timeouts, redrive to a dead-letter queue after some
//!   deliveries, and redelivery of messages that are in flight or already deleted. Two messages may have one key.
//! - Requests that the store carries out at any later time, or never. A worker that gets no answer sends again, as
//!   the SDK does (the same bytes) or as the consumer does (with the clock's new time), or stops waiting; its earlier
//!   requests stay in flight. A lost answer is a request that is carried out right after its sender stopped waiting.
//!   A lost request is one that is never carried out. Neither needs a step of its own.
//! - Fences, as far as claims compare them: the fence that a claim in flight has seen is still the key's fence, or not.
//! - Ages, in the configurations with [`Config::valid_for`](model::Config::valid_for). There, fences are times and counts.
//!   A handler whose token is too old does not run, and the message is a dead letter. The first item may be one
//!   without a fence. The model also notes when handlers truly ran first, and compares.
//! - Two ids of one key ([`Version`](model::Version)), with ages: after its claim, a worker reads the other id, takes a
//!   lapsed claim over, carries the fence over, or gives its claim back. Each of these requests can be late, lost or
//!   repeated.
//! - A crash at every step. A worker that dies before it sends is one whose request is never carried out.
//! - Deadlines: the worker stops its work there ([`Trouble::cancels`](model::Trouble::cancels)), or continues after it,
//!   like a process that was frozen ([`Trouble::overruns`](model::Trouble::overruns)).
//! - Renewals, while a handler runs ([`Trouble::renewals`](model::Trouble::renewals)): the worker has one tick more once
//!   it hears that the longer lease is written, and fails its record if it is refused. It needs no answer to go on, so a
//!   renewal can arrive at any later time.
//! - An operator who forgets a key at any moment, even while a worker holds it
//!   ([`Trouble::forgets`](model::Trouble::forgets)). The effect may then happen once more, and that worker no longer
//!   counts as an owner.
//!
//! Time is counted in ticks: an invocation takes one, its lease outlives it by one, and the visibility timeout is two.
//! Each kind of trouble is limited, so the search ends. Within its limit, trouble happens at every moment and in every
//! order.
//!
//! ## Not in the model
//!
//! - Retention that ends before a message does, items that the table's time to live deletes, unknown statuses, payload
//!   fingerprints and the cache of completed keys.
//! - Anything outside the protocol: envelopes, keys, hooks, batch handlers, terminal errors. A batch of a standard
//!   queue is one record, because its records share only the answer.
//! - DynamoDB's `ClientRequestToken`: only the condition decides about a transaction that is sent again, as after the
//!   token's ten minutes.
//! - Effects that continue after their handler was cancelled.
//! - Two ids of a key whose effect is recorded after the handler, without a claim. The simulation has them.
//! - Two ids together with renewals, or of two messages with one key.
//!
//! ## Reading a trace
//!
//! For a property that does not hold, the report shows the steps that lead to the violation. `m0#2` is the second
//! delivery of message 0. Workers have no names, because they are interchangeable. After each step, the trace shows the
//! items of the keys (`k0`) and the places of the messages if they changed. If a key has two ids, `k0` and `k1` are its
//! items, and `fence -3+1` is the first claim after one of three ticks ago. All times are in ticks from that moment, by
//! the true clock.
//!
//! ## Progress
//!
//! The model shows in two parts that every message ends. First, no state is a dead end: unless every message is
//! acknowledged or a dead letter, some step is possible that needs neither trouble nor a request without a waiting
//! sender. Second, there are no endless cycles: every step uses up a delivery, a request, a handler's run, trouble, or a
//! tick that a worker or message waits for, and deliveries are limited.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod chance;
pub mod model;
pub mod simulation;
mod way;
