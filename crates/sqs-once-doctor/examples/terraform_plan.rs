//! Prints the evaluated Terraform configuration of a folder: `cargo run --example terraform_plan -- terraform/`.

use sqs_once_doctor::{ReadError, evaluate_terraform};
use std::path::PathBuf;

#[expect(clippy::print_stdout, reason = "it is what the example is for")]
fn main() -> Result<(), ReadError> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let plan = evaluate_terraform(&folder.unwrap_or_else(|| PathBuf::from(".")))?;
    println!("{plan:#}");
    Ok(())
}
