//! These tables and dynoxide, an implementation that others keep at DynamoDB's own answers, answer the same to random
//! histories of requests, and hold the same in the end.
//!
//! `AGREEMENT_SEED` takes other histories than the usual ones. More operations, and other implementations:
//! `cargo run --release -p dynamodb-for-tests --example agreement -- --help`.

mod compared;
mod deviations;
mod engines;
mod expressions;
mod histories;
mod requests;
mod store;

use compared::Compared;
use deviations::Deviations;
use engines::{Dynoxide, Ours};

const OPERATIONS: usize = 6_000;

#[test]
fn random_histories_are_answered_as_dynoxide_answers_them() {
    let seed = match std::env::var("AGREEMENT_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => 1,
    };
    let engines: Vec<Box<dyn engines::Engine>> =
        vec![Box::new(Ours::new()), Box::new(Dynoxide::new())];
    let compared = Compared::new(engines, Deviations::default());
    let outcome = histories::compare(&compared, Some, seed, OPERATIONS, || {});
    if let Err(difference) = outcome {
        panic!("AGREEMENT_SEED={seed}: {difference}");
    }
    let counts = compared.counts();
    for (deviation, met) in compared.deviations("dynoxide") {
        assert!(met > 0, "no longer so, take it off the list: {deviation}");
    }
    assert!(
        counts.refused > 0 && counts.refused < counts.requests,
        "{counts:?}"
    );
}
