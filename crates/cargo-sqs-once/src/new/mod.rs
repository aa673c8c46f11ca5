//! `cargo sqs-once new`: a project that builds, tests, lints and deploys.

mod name;
mod template;
mod write;

use crate::print;
use serde_json::json;
use std::path::{Path, PathBuf};
use template::{Choices, Effect, TemplateError};
use write::WriteError;

const EXAMPLES: &str = "\
Examples:
  cargo sqs-once new payments
  cargo sqs-once new payments --fifo --transactional
  cargo sqs-once new payments --sns --postgres

The same by cargo-lambda, in a checkout of sqs-once:
  cargo lambda new payments --template crates/cargo-sqs-once/template";

/// Make a project: a function with its tests, events and deployment
///
/// The function handles orders, as an example: once it builds, put your own message in their place. Without options its
/// effect is a call to a service, behind a standard queue.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NewArgs {
    /// The project's name, and its folder's: lower-case letters, digits and hyphens
    #[arg(value_parser = name::parse)]
    name: String,

    /// A FIFO queue, with a FIFO dead-letter queue
    #[arg(long)]
    fifo: bool,

    /// An SNS topic in front of the queue, whose envelope the function opens
    #[arg(long)]
    sns: bool,

    /// The effect is writes to DynamoDB, which commit with the record of the message's key
    #[arg(long, conflicts_with = "postgres")]
    transactional: bool,

    /// The effect is in PostgreSQL, in the transaction that records the message's key
    #[arg(long)]
    postgres: bool,

    /// Depend on the sqs-once of this checkout instead of the released one
    #[arg(long, value_name = "FOLDER")]
    sqs_once: Option<PathBuf>,

    /// Write what was made to standard output as JSON
    #[arg(long)]
    json: bool,
}

/// No project was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NewError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(
        "{folder} is no checkout of sqs-once: it has no crates/sqs-once/Cargo.toml",
        folder = print::one_line(&.0.display().to_string())
    )]
    NoCheckout(PathBuf),
    #[error("the current folder can't be found")]
    CurrentFolder(#[source] std::io::Error),
}

/// Makes the project in the current folder.
pub(crate) fn new(args: NewArgs) -> Result<(), crate::error::Error> {
    let here = std::env::current_dir().map_err(NewError::CurrentFolder)?;
    let files = make(&args, &here)?;
    let paths: Vec<&str> = files.iter().map(|file| &*file.path).collect();
    let text = match args.json {
        true => {
            let folder = here.join(&args.name);
            print::json_line(
                &json!({ "name": args.name, "folder": folder.to_string_lossy(), "files": paths }),
            )
        }
        false => summary(&args, &paths),
    };
    print::result(text.as_bytes())
}

fn make(args: &NewArgs, here: &Path) -> Result<Vec<template::File>, NewError> {
    let choices = Choices {
        fifo: args.fifo,
        sns: args.sns,
        effect: match (args.transactional, args.postgres) {
            (true, _) => Effect::DynamoDb,
            (false, true) => Effect::Postgres,
            (false, false) => Effect::Elsewhere,
        },
        sqs_once: match &args.sqs_once {
            Some(folder) => Some(checkout(folder)?),
            None => None,
        },
    };
    let files = template::render(&args.name, &choices)?;
    write::project(here, &args.name, &files)?;
    Ok(files)
}

/// The folder's absolute path: the project lies elsewhere.
fn checkout(folder: &Path) -> Result<String, NewError> {
    let no_checkout = || NewError::NoCheckout(folder.to_owned());
    let folder = folder.canonicalize().map_err(|_| no_checkout())?;
    if !folder.join("crates/sqs-once/Cargo.toml").is_file() {
        return Err(no_checkout());
    }
    // A manifest is UTF-8.
    folder.to_str().map(str::to_owned).ok_or_else(no_checkout)
}

/// What was made, and what to do with it.
fn summary(args: &NewArgs, paths: &[&str]) -> String {
    let name = &args.name;
    let mut text = format!("made {name}:\n");
    for path in paths {
        text.push_str(&format!("  {path}\n"));
    }
    text.push_str(&format!("\nnext:\n  cd {name}\n"));
    text.push_str(match args.postgres {
        true => "  and, with a PostgreSQL as README.md says,\n",
        false => "",
    });
    text.push_str("  cargo test\n  cargo sqs-once invoke events/orders.json\n");
    text.push_str("  sam build && sam deploy --guided");
    text
}
