//! The promises of every store, tested on the in-memory store and on the DynamoDB store. The latter uses the real SDK
//! over HTTP against an embedded DynamoDB.

mod claims;
mod commits;
mod commits_refused;
mod commits_together;
mod conformance;
mod environment;
mod errors;
mod layout;
mod mutants;
mod requests;
mod support;
