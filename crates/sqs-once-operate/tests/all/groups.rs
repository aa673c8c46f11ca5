//! The groups of dead letters, here and on the page of `cargo sqs-once dev`.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use sqs_once_operate::Group;

const PAGE: &str = include_str!("../../../sqs-once-local/src/page/web/words.js");

/// Reasons, and what is left without their details.
const SHAPES: [(&str, &str); 20] = [
    ("the card was refused", "the card was refused"),
    ("order 42 is locked", "order # is locked"),
    ("order-42_7 is locked", "order-#_# is locked"),
    ("#42 is locked", "# is locked"),
    (
        "12.50 EUR, 1,299.00 EUR and 3 EUR",
        "# EUR, # EUR and # EUR",
    ),
    ("at 10:30:00.123 of 2026-11-22", "at # of #-#-#"),
    ("10.0.0.7:5432 refused", "# refused"),
    ("0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e is gone", "# is gone"),
    ("ABCDEFAB-ABCD-ABCD-ABCD-ABCDEFABCDEF is gone", "# is gone"),
    ("abcdefab-abcd-abcd is gone", "#-abcd-abcd is gone"),
    ("hash 3f9ab1c20d45 of deadbeef", "hash # of #"),
    ("no charge cus_NffrFeUfNV2Hib", "no charge cus_#"),
    ("a bad face added 2 decades", "a bad face added # decades"),
    (
        "unavailable: payments: HTTP2 status 503",
        "unavailable: payments: HTTP# status #",
    ),
    (
        "unavailable: payments2: v1 is down",
        "unavailable: payments#: v# is down",
    ),
    (
        "user \"Ann\" can't buy 'a \"b\" c'",
        "user \"…\" can't buy '…'",
    ),
    (
        "missing field `id` at line 1 column 12",
        "missing field `…` at line # column #",
    ),
    ("the \"end is open 7", "the \"end is open #"),
    ("Zürich \"ö\" 7…", "Zürich \"…\" #…"),
    ("", ""),
];

/// Runs the page's function.
fn on_the_page(reasons: &[String]) -> Vec<String> {
    let script = format!(
        "{PAGE}\nconst all = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n\
         process.stdout.write(JSON.stringify(all.map(shapeOf)));"
    );
    let mut node = Command::new("node")
        .args(["-e", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tests need Node.js");
    let input = serde_json::to_vec(reasons).unwrap();
    node.stdin.take().unwrap().write_all(&input).unwrap();
    let output = node.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn reasons_that_differ_in_details_have_one_shape() {
    for (reason, shape) in SHAPES {
        assert_eq!(Group::shape(reason), shape, "{reason}");
        assert_eq!(Group::shape(shape), shape, "a shape is its own shape");
    }
}

/// Reasons of pieces that the rules tell apart, so that the pieces meet in every way.
fn reason() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ .,:#_-]",
        "[\"'`]",
        "[0-9]{1,9}",
        "[a-fA-F0-9]{1,9}",
        "[a-zA-Z]{1,9}",
        "[a-z0-9]{1,9}",
        "[a-f0-9]{8}(-[a-f0-9]{4}){3}-[a-f0-9]{12,13}",
        "\\PC",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn the_page_shows_the_same_groups() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut reasons = SHAPES.map(|(reason, _)| reason.to_owned()).to_vec();
    for _ in 0..5_000 {
        reasons.push(reason().new_tree(&mut runner).unwrap().current());
    }
    for (reason, shape) in reasons.iter().zip(on_the_page(&reasons)) {
        assert_eq!(Group::shape(reason), shape, "{reason:?}");
    }
}
