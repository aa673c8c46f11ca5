//! `cargo sqs-once`, which cargo runs. `sqs-once` also runs this program, under its own name.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let is_own = Path::new(&name).file_stem() == Some(OsStr::new("sqs-once"));
    cargo_sqs_once::run(if is_own { "sqs-once" } else { "cargo-sqs-once" })
}
