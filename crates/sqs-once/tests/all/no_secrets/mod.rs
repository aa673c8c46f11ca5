//! What a message holds is nowhere in what the process says, on whatever way the message goes: its body, its key,
//! its receipt handle, its attributes and its group, what a handler recorded, and what AWS quotes of all that.
//!
//! The ways are a table, in `paths`. A line of the log that no way comes to fails the test: add the way.

#![allow(
    clippy::print_stdout,
    reason = "what is printed is what is looked through"
)]

mod lambda;
mod paths;
mod paths_dynamodb;
mod paths_input;
mod paths_once;
mod paths_store;
mod sites;
mod world;

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use crate::support::process::this_program;
use sites::Site;

/// Says to a process of this program which part it plays.
const PART: &str = "SQS_ONCE_TEST_PART";
/// Stands before what one path says.
const PATH: &str = "==== ";

/// Stands in everything that must not be said: as it is, in base64, in hexadecimal digits, and as bytes are debugged.
const SECRETS: [&str; 4] = [
    "canary",
    "y2fuyxj5",
    "63616e617279",
    "99, 97, 110, 97, 114, 121",
];

/// Lines of the log that no test can come to, and why.
const UNREACHED: [(&str, &str); 2] = [
    // No signal handler can be installed.
    ("lambda/shutdown.rs", "no signal can be received"),
    // Every panic of the user's code is caught before: it takes a fault of this crate.
    ("batch/answer.rs", "a batch ended early"),
];

/// This program again, in one of its tests, playing a part.
fn process(test: &str) -> Command {
    let mut process = this_program(module_path!(), test);
    process
        .args(["--nocapture", "--test-threads=1"])
        .env(PART, test)
        // Sampled invocations have a span more.
        .env("SQS_ONCE_LOG_SAMPLE_RATE", "1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_REGION", "eu-central-1")
        .env_remove("SQS_ONCE_TABLE")
        .stdin(Stdio::null());
    process
}

fn plays(test: &str) -> bool {
    std::env::var_os(PART).is_some_and(|part| part == test)
}

/// All that a process has said.
fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The lines in which a secret stands, each with the path that said it.
fn secrets_in(said: &str) -> Vec<(&str, &str)> {
    let mut path = "run by Lambda";
    let mut found = Vec::new();
    for line in said.lines() {
        path = line.strip_prefix(PATH).unwrap_or(path);
        let lower = line.to_lowercase();
        if SECRETS.iter().any(|secret| lower.contains(secret)) {
            found.push((path, line));
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn in_a_process_that_goes_every_way() {
    if plays("in_a_process_that_goes_every_way") {
        sites::watch();
        paths::go().await;
    }
}

// Enough threads for those that its handler keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_process_that_lambda_runs() {
    if plays("in_a_process_that_lambda_runs") {
        sites::watch();
        lambda::serve().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_a_message_says_what_it_holds_and_every_line_of_the_log_is_on_a_way() {
    let ways = process("in_a_process_that_goes_every_way")
        .output()
        .unwrap();
    let ways_said = said(&ways);
    assert!(ways.status.success(), "{ways_said}");
    let by_lambda = said(&lambda::drive(process("in_a_process_that_lambda_runs")).await);

    for (name, words) in paths::expected() {
        let path = format!("{PATH}{name}\n");
        let (_, said) = ways_said
            .split_once(&path)
            .unwrap_or_else(|| panic!("{name} is no path"));
        let said = said.split(PATH).next().unwrap();
        assert!(
            said.contains(words),
            "the path {name:?} did not say {words:?}:\n{said}"
        );
    }
    let found = [secrets_in(&ways_said), secrets_in(&by_lambda)].concat();
    assert!(
        found.is_empty(),
        "{} lines show a secret: {:#?}",
        found.len(),
        &found[..found.len().min(20)]
    );

    let reached: BTreeSet<Site> = sites::said(&ways_said)
        .chain(sites::said(&by_lambda))
        .collect();
    let in_source = sites::in_source();
    let strange: Vec<_> = reached
        .difference(&in_source.keys().cloned().collect())
        .cloned()
        .collect();
    assert!(strange.is_empty(), "not found in the source: {strange:?}");
    let unreached = in_source.iter().filter(|(site, _)| !reached.contains(site));
    let mut excused = 0;
    for (site, text) in unreached {
        let is_excused = UNREACHED
            .iter()
            .any(|(file, words)| site.0 == *file && text.contains(words));
        assert!(is_excused, "no path comes to {site:?}: {text}");
        excused += 1;
    }
    assert_eq!(
        excused,
        UNREACHED.len(),
        "what is excused must be unreached"
    );
}
