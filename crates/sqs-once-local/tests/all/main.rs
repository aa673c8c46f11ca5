//! Tests each part of the local AWS, and all parts together.

#![allow(clippy::unwrap_used, reason = "a test")]

mod dev;
mod dynamodb;
mod event;
mod function;
mod guard;
mod mapping;
mod page;
mod queue;
mod report;
mod runtime_api;
mod s3;
mod sqs_api;
mod sqs_odd_requests;
mod story;
mod support;
mod template;
