//! The Rust in the README and in the macros' documentation compiles unchanged.

use std::fs;
use std::path::Path;

use crate::compiler::check;

const README: &str = include_str!("../../../../README.md");

const MACROS: &str = include_str!("../../../sqs-once-macros/src/lib.rs");

/// Definitions that the README omits.
const PRELUDE: &str = "
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
";

#[test]
fn the_readmes_rust_compiles() {
    let listings: Vec<_> = listings(README).collect();
    assert_eq!(listings.len(), README.matches("```rust").count());
    for (at, listing) in listings.into_iter().enumerate() {
        // In a module, since the README's `main` would wait for events.
        let module = format!("mod readme {{\n{PRELUDE}\n{listing}}}\n");
        let program = format!("#![allow(dead_code)]\n\nfn main() {{}}\n\n{module}");
        compiles(&format!("readme_{at}"), &program);
    }
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

fn listings(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("\n```rust\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("```")?.0))
}
