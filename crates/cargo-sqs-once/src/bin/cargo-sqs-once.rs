//! `cargo sqs-once`, which cargo runs.

fn main() -> std::process::ExitCode {
    cargo_sqs_once::run("cargo-sqs-once")
}
