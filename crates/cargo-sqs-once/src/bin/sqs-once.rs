//! `sqs-once`: becomes `cargo-sqs-once`, which is installed beside it.
//!
//! It does not link the library, because a second link with link-time optimisation takes minutes.

use std::env::{self, consts::EXE_SUFFIX};
use std::io::{self, Write};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let beside =
        env::current_exe().map(|own| own.with_file_name(format!("cargo-sqs-once{EXE_SUFFIX}")));
    let ended = beside.and_then(|program| {
        let mut command = Command::new(program);
        command.args(env::args_os().skip(1));
        run(command)
    });
    ended.unwrap_or_else(|error| {
        let advice = "`cargo install cargo-sqs-once` installs it";
        let _ = writeln!(
            io::stderr(),
            "error: cargo-sqs-once, beside sqs-once, can't be run: {error}\n  help: {advice}"
        );
        ExitCode::FAILURE
    })
}

/// Replaces this process. The help of the program then has this name.
#[cfg(unix)]
fn run(mut command: Command) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(command.arg0("sqs-once").exec())
}

#[cfg(not(unix))]
fn run(mut command: Command) -> io::Result<ExitCode> {
    let code = command
        .status()?
        .code()
        .and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
