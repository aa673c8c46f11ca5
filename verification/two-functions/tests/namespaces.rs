//! Handlers with the same name in one package: which of them start without a namespace, and that no two share keys.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::process::Command;

const MAIN: &str = env!("CARGO_BIN_EXE_two-functions");
const REFUNDS: &str = env!("CARGO_BIN_EXE_refunds");

/// The handlers of a function: each one's namespace on a bench, and the result of its start.
fn handlers(function: &str) -> Vec<(String, String)> {
    let output = Command::new(function)
        .env_remove("SQS_ONCE_NAMESPACE")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = said.lines().collect();
    let handlers = lines.chunks_exact(2).map(|lines| {
        let id = lines[0].strip_prefix("id ").unwrap();
        let (namespace, _) = id.split_once('#').unwrap();
        (namespace.to_owned(), lines[1].to_owned())
    });
    handlers.collect()
}

fn namespaces(function: &str) -> Vec<String> {
    let handlers = handlers(function).into_iter();
    handlers.map(|(namespace, _)| namespace).collect()
}

#[test]
fn no_two_handlers_of_a_package_have_one_namespace_in_its_tests() {
    let in_main = [
        "two-functions.handle",
        "two-functions.later.handle",
        "two-functions.describe_one_of_its_own.handle",
        "two-functions/lib.handle",
    ];
    let in_refunds = [
        "two-functions/refunds.handle",
        "two-functions/refunds.later.handle",
        "two-functions/lib.handle",
    ];
    assert_eq!(namespaces(MAIN), in_main);
    assert_eq!(namespaces(REFUNDS), in_refunds);
    let all: BTreeSet<_> = in_main.into_iter().chain(in_refunds).collect();
    assert_eq!(all.len(), 6, "the library's handler is in both functions");
}

#[test]
fn only_a_handler_in_the_root_of_the_packages_own_binary_starts_without_a_namespace() {
    let started = |function| {
        let handlers = handlers(function).into_iter();
        let started = handlers.filter(|(_, start)| start == "starts");
        started.map(|(namespace, _)| namespace).collect::<Vec<_>>()
    };
    assert_eq!(started(MAIN), ["two-functions.handle"]);
    assert!(started(REFUNDS).is_empty());
}

#[test]
fn a_refusal_names_a_namespace_for_the_handler_and_the_one_that_an_earlier_version_gave_it() {
    for (namespace, refusal) in handlers(MAIN).into_iter().skip(1).chain(handlers(REFUNDS)) {
        assert!(
            refusal.starts_with("SQS_ONCE_NAMESPACE is not set"),
            "{refusal}"
        );
        for name in [&*namespace, "two-functions.handle"] {
            assert!(refusal.contains(&format!("\"{name}")), "{refusal}");
        }
    }
}
