//! Runs every input of the committed corpus without libFuzzer, and tests that a target can fail.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use sqs_once_fuzz::TARGETS;

/// The inputs in a target's corpus, each with its name. `verification/fuzz/corpus.py` describes the format.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let lines = fs::read_to_string(corpus.join(format!("{target}.jsonl"))).unwrap();
    let inputs = lines.lines().map(|line| {
        let (name, content): (String, String) = serde_json::from_str(line).unwrap();
        let bytes = content.chars().map(|byte| u8::try_from(byte).unwrap());
        (name, bytes.collect())
    });
    inputs.collect()
}

#[test]
fn every_input_of_the_corpus_keeps_its_targets_promises() {
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        assert!(corpus.len() >= 20, "{name} has {} inputs", corpus.len());
        for (input, bytes) in corpus {
            catch_unwind(|| target(&bytes)).unwrap_or_else(|_| panic!("{name}: {input}"));
        }
    }
}
