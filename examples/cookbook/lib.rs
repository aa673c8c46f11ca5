//! The tests of all recipes, and of what they have in common.

#![cfg(test)]
#![allow(dead_code, reason = "the `main` of each recipe")]
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::duplicate_mod, reason = "the tests of each recipe stand alone")]

mod deployment;

#[path = "charge/main.rs"]
mod charge;
#[path = "custom-store/main.rs"]
mod custom_store;
#[path = "durable-function/main.rs"]
mod durable_function;
#[path = "email/main.rs"]
mod email;
#[path = "event-bus/main.rs"]
mod event_bus;
#[path = "eventbridge/main.rs"]
mod eventbridge;
#[path = "fifo/main.rs"]
mod fifo;
#[path = "large/main.rs"]
mod large;
#[path = "layers/main.rs"]
mod layers;
#[path = "lookup/main.rs"]
mod lookup;
#[path = "metrique/main.rs"]
mod metrique_beside;
#[path = "outbox/main.rs"]
mod outbox;
#[path = "postgres/main.rs"]
mod postgres;
#[path = "protobuf/main.rs"]
mod protobuf;
#[path = "relay/main.rs"]
mod relay;
#[path = "replay/main.rs"]
mod replay;
#[path = "routes/main.rs"]
mod routes;
#[path = "s3-import/main.rs"]
mod s3_import;
#[path = "schedule/main.rs"]
mod schedule;
#[path = "sns/main.rs"]
mod sns;
#[path = "state-machine/main.rs"]
mod state_machine;
#[path = "tenants/main.rs"]
mod tenants;
#[path = "transaction/main.rs"]
mod transaction;
#[path = "transaction-batch/main.rs"]
mod transaction_batch;
#[path = "without-sqs/main.rs"]
mod without_sqs;
