//! The README's Rust compiles as it stands there.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

const README: &str = include_str!("../../../README.md");

/// What the README leaves to the reader.
const PRELUDE: &str = "
use sqs_once::DynamoDbStore;

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
struct App;

impl App {
    fn new() -> Self {
        Self
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
        program += &match listing.contains("fn main()") {
            true => listing.to_owned(),
            false => format!("\nasync fn listing_{at}() -> Result<(), Error> {{\n{listing}}}\n"),
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
