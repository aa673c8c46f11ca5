//! The kill test: real processes, real HTTP, a queue with visibility and redrive, and one DynamoDB. Processes
//! are killed at random, requests and answers get lost and come late, messages come twice; in the end every order
//! has its account.
//!
//! ```sh
//! cargo run --release -p sqs-once-kill -- --messages 100000 --kills 1000 --seed 1
//! ```
//!
//! The seed decides what is sent, which requests go wrong and how, and after how many messages somebody is
//! killed. It does not decide how the processes interleave: they are real.

mod accounts;
mod chance;
mod environment;
mod history;
mod killer;
mod ledger;
mod network;
mod plan;
mod report;
mod run;
pub mod worker;

pub use accounts::{Accounts, Wrong};
pub use plan::{NoWay, Plan, Way};
pub use run::{RunError, run};
