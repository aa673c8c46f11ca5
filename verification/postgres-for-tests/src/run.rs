//! Runs programs until they end.

use anyhow::{Context, Result, ensure};
use std::process::{Command, Output, Stdio};

/// Runs a program that must succeed. An error contains its output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let output = output(command);
    let program = command.get_program().to_string_lossy();
    let output = output.with_context(|| format!("{program} can't be run"))?;
    let (status, words) = (output.status, words(&output));
    ensure!(status.success(), "{program} ended with {status}:\n{words}");
    Ok(())
}

/// The output of a program that has ended, standard output first.
pub(crate) fn words(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    format!("{stdout}{stderr}").trim_end().to_owned()
}

/// Runs a program until it ends, successfully or not.
pub(crate) fn output(command: &mut Command) -> std::io::Result<Output> {
    command.stdin(Stdio::null()).output()
}
