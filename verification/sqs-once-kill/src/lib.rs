//! The kill test: real processes, real HTTP, a queue with visibility timeouts and redrive, and one DynamoDB. The test
//! kills processes at random, loses and delays requests and answers, and delivers messages twice. In the end it checks
//! every order.
//!
//! ```sh
//! cargo run --release -p sqs-once-kill -- --messages 100000 --kills 1000 --seed 1
//! ```
//!
//! The seed determines which messages are sent, which requests fail and how, and after how many messages a process is
//! killed. It does not determine how the processes interleave: they are real.

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
pub use plan::{Plan, Way};
pub use run::run;
