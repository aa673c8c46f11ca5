//! Tests the program without rustdoc's JSON.

use std::process::Command;

#[test]
fn a_file_that_is_not_rustdocs_json_is_an_error() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_public-api-listing"))
        .arg(manifest)
        .output();
    let output = output.expect("the program starts");
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
}
