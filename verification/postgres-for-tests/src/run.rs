//! Runs programs until they end.

use crate::error::Error;
use std::process::{Command, Output, Stdio};

/// Runs a program that must succeed. An error contains its output.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match output(command) {
        Ok(output) => output,
        Err(source) => return Err(Error::Spawn { program, source }),
    };
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Failed {
        program,
        status: output.status,
        output: words(&output),
    })
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
