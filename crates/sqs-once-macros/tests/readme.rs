//! The README's Rust compiles as it stands there.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

const README: &str = include_str!("../../../README.md");

/// What the README leaves to the reader.
const PRELUDE: &str = "
use sqs_once::{Disposition, DynamoDbStore, FromRecord, MemoryStore, RecordParts, State, Writes};
use sqs_once::aws_sdk_dynamodb::types::Update;

struct Card;

fn parse_card(card: &str) -> Result<Card, std::num::ParseIntError> {
    card.parse::<u64>().map(|_| Card)
}

mod payments {
    use super::{Card, IdempotencyToken};

    pub async fn charge(_: Card, _: u64, _: &IdempotencyToken) -> std::io::Result<()> {
        Ok(())
    }
}

async fn issue_receipt(_: &OrderPlaced) -> Result<String, HandlerError> {
    Ok(String::new())
}

#[derive(Clone)]
struct Db;

impl Db {
    fn new() -> Self {
        Self
    }

    async fn insert_all<'a>(
        &self,
        orders: impl Iterator<Item = &'a OrderPlaced>,
    ) -> std::io::Result<Vec<Result<(), String>>> {
        Ok(orders.map(|_| Ok(())).collect())
    }
}

#[derive(Clone)]
struct App {
    orders: String,
}

impl App {
    fn new() -> Self {
        Self { orders: String::new() }
    }
}

#[derive(serde::Serialize)]
struct Order;

impl From<&OrderPlaced> for Order {
    fn from(_: &OrderPlaced) -> Self {
        Self
    }
}

fn stock_decrement(_: &OrderPlaced) -> Update {
    unimplemented!()
}

/// As those of `sqs-once-postgres`, which this crate does without.
struct Transaction;

impl Transaction {
    async fn execute(&self, _: &str, _: &[&String]) -> std::io::Result<u64> {
        Ok(1)
    }
}

impl<S> FromRecord<S> for Transaction {
    const TRANSACTION: bool = true;

    fn from_record(_: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(Self)
    }
}

struct PostgresStore;

impl PostgresStore {
    fn from_env() -> Result<MemoryStore, Error> {
        Ok(MemoryStore::new())
    }
}
";

#[test]
fn the_readmes_rust_compiles() {
    // In a module, since its `main` would wait for events.
    let mut program = format!("#![allow(dead_code)]\n\nfn main() {{}}\n\nmod readme {{\n{PRELUDE}");
    let listings: Vec<_> = listings(README).collect();
    assert_eq!(listings.len(), README.matches("```rust").count());
    for (at, listing) in listings.into_iter().enumerate() {
        // One that shows functions only ends in nothing.
        let end = if listing.ends_with("}\n") {
            "Ok(())\n"
        } else {
            ""
        };
        program += &match listing.contains("fn main()") {
            true => listing.to_owned(),
            false => {
                format!("\nasync fn listing_{at}() -> Result<(), Error> {{\n{listing}{end}}}\n")
            }
        };
    }
    program += "}\n";
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme.rs");
    fs::write(&path, program).unwrap();
    trybuild::TestCases::new().pass(path);
}

/// The blocks of Rust, in their order.
fn listings(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("\n```rust\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("```")?.0))
}
