//! The output of the process contains no part of a message, on any path of the message: no body, key, receipt handle,
//! attribute or group, no recorded data, and no quotation of these by AWS.
//!
//! The table in `paths` lists all paths. The test fails if no path reaches a line of the log: add a path then.

#![allow(
    clippy::print_stdout,
    reason = "what is printed is what is looked through"
)]

mod lambda;
mod paths;
mod paths_dynamodb;
mod paths_input;
mod paths_large;
mod paths_once;
mod paths_store;
mod sites;
mod world;

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use crate::support::process::this_program;
use sites::Site;

/// The variable that selects the part that a process of this program plays.
const PART: &str = "TEST_PART";
/// The prefix of the line that starts a path's output.
const PATH: &str = "==== ";

/// Every secret contains one of these: as text, in base64, in hexadecimal digits, and as formatted bytes.
const SECRETS: [&str; 4] = [
    "canary",
    "y2fuyxj5",
    "63616e617279",
    "99, 97, 110, 97, 114, 121",
];

/// Log lines that no test can reach, with the reason.
const UNREACHED: [(&str, &str); 5] = [
    // The tests have the feature.
    ("config.rs", "without its feature `sqs`"),
    // No signal handler can be installed.
    ("lambda/shutdown.rs", "no signal can be received"),
    // The library catches every panic of user code earlier, so this needs a bug in this crate.
    ("batch/answer.rs", "a batch ended early"),
    // They end the process, and have no fields: the test `next_event` reads them.
    ("batch/watchdog.rs", "takes no other event"),
    ("batch/watchdog.rs", "ends itself"),
];

/// Starts this program again in one of its tests, with a part to play.
fn process(test: &str) -> Command {
    let mut process = this_program(module_path!(), test);
    process
        .args(["--nocapture", "--test-threads=1"])
        .env(PART, test)
        // Sampled invocations have one more span.
        .env("SQS_ONCE_LOG_SAMPLE_RATE", "1")
        .env("SQS_ONCE_UNKNOWN", "canary")
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

/// The complete output of a process.
fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The lines that contain a secret, each with its path.
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

// Enough threads for those that the handler blocks.
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
        let said = ways_said.split_once(&path);
        let (_, said) = said.unwrap_or_else(|| panic!("{name} is no path"));
        let said = said.split(PATH).next().unwrap();
        let has_words = said.contains(words);
        assert!(has_words, "{name:?} did not say {words:?}:\n{said}");
    }
    let found = [secrets_in(&ways_said), secrets_in(&by_lambda)].concat();
    let (count, first) = (found.len(), &found[..found.len().min(20)]);
    assert!(found.is_empty(), "{count} lines show a secret: {first:#?}");

    let reached = sites::said(&ways_said).chain(sites::said(&by_lambda));
    let reached: BTreeSet<Site> = reached.collect();
    let in_source = sites::in_source();
    let strange = &reached - &in_source.keys().cloned().collect();
    assert!(strange.is_empty(), "not found in the source: {strange:?}");
    let unreached = in_source.iter().filter(|(site, _)| !reached.contains(site));
    let mut excused = 0;
    for (site, text) in unreached {
        let is_it = |(file, words): &(&str, &str)| site.0 == *file && text.contains(words);
        let is_excused = UNREACHED.iter().any(is_it);
        assert!(is_excused, "no path comes to {site:?}: {text}");
        excused += 1;
    }
    assert_eq!(excused, UNREACHED.len(), "what is excused is unreached");
}
