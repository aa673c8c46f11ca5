//! `sqs-once`, the same program without cargo.

fn main() -> std::process::ExitCode {
    cargo_sqs_once::run("sqs-once")
}
