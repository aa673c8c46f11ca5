//! The Rust in the README and in the macros' documentation compiles unchanged.

use std::fs;
use std::path::Path;

use crate::compiler::check;

const README: &str = include_str!("../../../../README.md");

/// The macros' documentation.
const MACROS: &str = include_str!("../../../sqs-once-macros/src/lib.rs");

/// Definitions that the README omits.
const PRELUDE: &str = "
use sqs_once::extract::{FromRecord, RecordParts};
use sqs_once::policy::Disposition;
use sqs_once::store::MemoryStore;
use sqs_once::{DynamoDbStore, State, Writes};
use sqs_once::sdk::dynamodb::types::Update;

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

/// Like the types of `sqs-once-postgres`, on which this crate does not depend.
struct Transaction;

impl Transaction {
    async fn execute(&self, _: &str, _: &[&String]) -> std::io::Result<u64> {
        Ok(1)
    }
}

impl<S: Sync> FromRecord<S> for Transaction {
    const TRANSACTION: bool = true;

    async fn from_record(_: &RecordParts<S>) -> Result<Self, HandlerError> {
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
    // In a module, since the README's `main` would wait for events.
    let mut program = format!("#![allow(dead_code)]\n\nfn main() {{}}\n\nmod readme {{\n{PRELUDE}");
    let listings: Vec<_> = listings(README).collect();
    assert_eq!(listings.len(), README.matches("```rust").count());
    for (at, listing) in listings.into_iter().enumerate() {
        // A listing that contains only functions has no final value.
        let end = if listing.ends_with("}\n") {
            "Ok(())\n"
        } else {
            ""
        };
        let function = format!("async fn listing_{at}() -> Result<(), Error>");
        program += &match listing.contains("fn main()") {
            true => listing.to_owned(),
            false => format!("\n{function} {{\n{listing}{end}}}\n"),
        };
    }
    program += "}\n";
    compiles("readme", &program);
}

#[test]
fn the_examples_of_the_macros_compile() {
    let docs: String = MACROS
        .lines()
        .filter_map(|line| Some(line.strip_prefix("///")?.trim_start().to_owned() + "\n"))
        .collect();
    let examples: Vec<_> = docs.split("```\n").skip(1).step_by(2).collect();
    assert_eq!(examples.len(), 4);
    for (at, example) in examples.into_iter().enumerate() {
        let program = format!("fn main() {{\n{example}}}\n");
        compiles(&format!("macros_{at}"), &program);
    }
}

fn compiles(name: &str, program: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.rs"));
    fs::write(&path, program).unwrap();
    let output = check(&path);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
}

/// The Rust code blocks of a page, in order.
fn listings(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("\n```rust\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("```")?.0))
}
