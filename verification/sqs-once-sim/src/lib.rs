//! The protocol of sqs-once, checked: every state that a small system can get into is visited ([`model`]), and whole
//! consumers run in simulated time among everything that can fail them ([`simulation`]).
//!
//! ```sh
//! cargo run --release -p sqs-once-sim -- model              # every configuration
//! cargo run --release -p sqs-once-sim -- model --config claim-first-crash --threads 2
//! cargo run --release -p sqs-once-sim -- --seeds 100000     # simulated schedules, one a seed
//! cargo run --release -p sqs-once-sim -- --seed 42          # one of them, line by line
//! cargo run --release -p sqs-once-sim -- mutants            # every guard switched off, and the seed that shows it
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
//! ## What is the library's, and what is the model's
//!
//! What a write needs to be allowed, what it leaves, and what its sender makes of the answer is asked of the library's
//! own functions: `Claim::admitted_by` and `write`, `Settlement::admitted_by` and `write`, `on_claimed`, `on_refused`,
//! `on_found`, `on_completed` and `on_committed`. What is around them is modelled after the library's batches: when a worker
//! asks, runs, settles, gives up and answers.
//!
//! ## What is modelled
//!
//! - Three workers with clocks that differ, deliveries, visibility timeouts, redrive to a dead-letter queue after some
//!   deliveries, and deliveries of what is out or deleted already. Two messages may have one key.
//! - Requests that are carried out at any later time, or never. A worker that hears no answer sends again, as
//!   the SDK does (the same bytes) or as the consumer does (at the clock's new time), or gives up; what it sent
//!   before stays on its way. A lost answer is a request that is carried out right after its sender has given up
//!   on it, and a request that is lost is one that is never carried out; neither needs a step of its own.
//! - Fences, as far as claims compare them: what a claim on its way has seen is what its key still has, or is not.
//! - A crash at every step. A worker that dies before it sends is one whose request is never carried out.
//! - Deadlines: work is left alone there ([`Trouble::cancels`](model::Trouble::cancels)), or goes on past it as in a
//!   process that was frozen ([`Trouble::overruns`](model::Trouble::overruns)).
//!
//! Time is counted in ticks: an invocation takes one, its lease outlives it by one, a message comes back after two.
//! Trouble is limited by kind, so the search ends; within the limit it comes at every moment and in every order.
//!
//! ## What is not
//!
//! - Retention that ends before a message does, items that the table's time to live deletes, unknown statuses, payload
//!   fingerprints and the cache of completed keys.
//! - What never touches the protocol: envelopes, keys, hooks, batch handlers, terminal errors. A batch of a standard
//!   queue is one record, for its records share nothing but the answer.
//! - DynamoDB's `ClientRequestToken`: a transaction that is sent again is judged by its condition alone, as it is after
//!   the token's ten minutes.
//! - Effects that go on by themselves after their handler was cancelled.
//!
//! ## Reading a trace
//!
//! A property that does not hold is printed with the steps that lead there. `m0#2` is the second delivery of message 0;
//! workers have no names, since nothing depends on which it is. A step is followed by what stands for the keys (`k0`)
//! and by where the messages are, where that has changed. All times are in ticks from that moment, by the true clock.
//!
//! ## Progress
//!
//! "In the end" is shown in two parts. No state is without a way on: unless every message is acknowledged or a dead
//! letter, a step is possible that needs neither trouble nor a request that nobody waits for. And there is no way
//! round and round: every step uses up a delivery, a request, a handler's run, trouble, or a tick that somebody waits
//! for, and deliveries are limited.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod chance;
pub mod model;
pub mod simulation;
