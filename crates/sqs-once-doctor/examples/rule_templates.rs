//! Writes the example that breaks each rule into a folder, and a template with faults under conditions:
//! `cargo run --example rule_templates -- FOLDER`.

#![allow(clippy::unwrap_used, reason = "it shares the tests' code")]

#[path = "../tests/all/examples.rs"]
#[allow(dead_code, reason = "only the tests use all of it")]
mod examples;

use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap());
    for rule in examples::rules() {
        examples::write(rule.id, "bad", &folder.join(rule.id));
    }
    std::fs::write(folder.join("conditional.yaml"), examples::conditional()).unwrap();
}
