//! Random histories, and what comes of comparing them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use sqs_once::store::DynamoDbStore;

use super::compared::Compared;
use super::requests::{Request, deletes, request};
use super::store::{Ask, ask};

/// How many steps a history has at most.
const STEPS: usize = 24;

/// What of a request is asked.
pub(crate) type Asked = fn(Request) -> Option<Request>;

#[derive(Clone, Debug)]
enum Step {
    Send(Box<Request>),
    Ask(Ask),
}

fn history(asked: Asked) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => request()
            .prop_filter_map("asked", asked)
            .prop_map(|request| Step::Send(Box::new(request))),
        2 => ask().prop_map(Step::Ask),
    ];
    vec(step, 1..STEPS)
}

/// Compares random histories until so many operations were carried out. A failure is shrunk, and told with the seed
/// that brings it back.
pub(crate) fn compare(
    compared: &Compared,
    asked: Asked,
    seed: u64,
    operations: usize,
    progress: impl Fn(),
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let store = DynamoDbStore::new(compared.client(), "idempotency");
    let histories = history(asked);
    for round in 0_u64.. {
        if compared.counts().operations >= operations {
            break;
        }
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&round.to_le_bytes());
        let config = Config {
            cases: 50,
            failure_persistence: None,
            max_shrink_iters: 500,
            ..Config::default()
        };
        // One that has run does not run again.
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let outcome = runner.run(&histories, |steps| {
            compared.begin();
            let clean = deletes();
            compared.carry_out(clean.operation, clean.body, clean.operations);
            for step in steps {
                match step {
                    Step::Send(request) => {
                        compared.carry_out(request.operation, request.body, request.operations);
                    }
                    Step::Ask(ask) => runtime.block_on(ask.of(&store)),
                }
                // All that follows would be its consequence.
                if compared.is_different() {
                    break;
                }
            }
            match compared.differences().as_slice() {
                [] => Ok(()),
                all => Err(TestCaseError::fail(all.join("\n"))),
            }
        });
        match outcome {
            Ok(()) => progress(),
            Err(TestError::Fail(reason, steps)) => {
                return Err(format!("seed {seed}: {reason}\nafter {steps:?}"));
            }
            Err(TestError::Abort(reason)) => return Err(format!("seed {seed}: {reason}")),
        }
    }
    Ok(())
}
