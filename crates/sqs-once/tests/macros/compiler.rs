//! Runs the compiler with the libraries that `cargo test --workspace` has built, without another build.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

/// The crates that a program may use, with the file for `--extern`.
static LIBRARIES: LazyLock<Vec<(&str, PathBuf)>> = LazyLock::new(|| {
    // `--workspace` selects the features of that build. This target's name, which is unique in the workspace, selects
    // only it.
    let mut cargo = Command::new(env!("CARGO"));
    // Cargo sets these variables for a test of its package. Build scripts that read them would run again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    let cargo = cargo
        .args(["test", "--workspace", "--no-run", "--test", "macros"])
        .args(["--quiet", "--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(cargo.status.success(), "cargo tells what it has built");
    let said = String::from_utf8(cargo.stdout).unwrap();
    let messages = said.lines().map(|line| serde_json::from_str(line).unwrap());
    let messages: Vec<Value> = messages.collect();
    ["lambda_runtime", "serde", "sqs_once", "tokio"]
        .map(|name| (name, library(&messages, name)))
        .to_vec()
});

/// The only file of a library in Cargo's build messages.
fn library(messages: &[Value], name: &str) -> PathBuf {
    let built = messages.iter().filter(|message| {
        message["reason"] == "compiler-artifact" && message["target"]["name"] == name
    });
    let files = built.flat_map(|message| message["filenames"].as_array().unwrap());
    let files = files.filter_map(Value::as_str);
    let libraries: Vec<_> = files.filter(|file| file.ends_with(".rlib")).collect();
    let [library] = libraries[..] else {
        panic!("cargo builds {name} once, not as {libraries:?}");
    };
    library.into()
}

/// Checks a program as a part of this package; in a folder `bin`, as a binary with the file's name. The path is relative
/// to the workspace's folder, as in Cargo's own calls.
pub(crate) fn check(program: &Path) -> Output {
    let mut rustc = Command::new("rustc");
    for (name, file) in LIBRARIES.iter() {
        let library = format!("{name}={}", file.display());
        rustc.args(["--extern", &library]);
    }
    // As Cargo does for a binary.
    if program
        .parent()
        .is_some_and(|folder| folder.ends_with("bin"))
    {
        rustc.env("CARGO_BIN_NAME", program.file_stem().unwrap());
    }
    let dependencies = LIBRARIES[0].1.parent().unwrap();
    rustc
        .arg("-L")
        .arg(format!("dependency={}", dependencies.display()))
        .args(["--edition", "2024", "--emit", "metadata", "--out-dir"])
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .args(["--diagnostic-width", "200", "-A", "dead_code"])
        .arg(program)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("CARGO_PKG_NAME", env!("CARGO_PKG_NAME"))
        .output()
        .unwrap()
}
