//! Runs every input of the committed corpus without libFuzzer, and tests that a target can fail.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;

use sqs_once_fuzz::TARGETS;

/// The inputs in a target's corpus.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let inputs = fs::read_dir(corpus.join(target)).unwrap();
    let paths = inputs.map(|input| input.unwrap().path());
    paths
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn every_input_of_the_corpus_keeps_its_targets_promises() {
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        assert!(corpus.len() >= 20, "{name} has {} inputs", corpus.len());
        for (path, input) in corpus {
            catch_unwind(|| target(&input)).unwrap_or_else(|_| panic!("{}", path.display()));
        }
    }
}
