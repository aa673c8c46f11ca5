//! The command line's arguments.

#[cfg(feature = "aws")]
use crate::audit::AuditArgs;
use crate::breaker::BreakerArgs;
use crate::dev::DevArgs;
use crate::dlq::DlqArgs;
use crate::doctor::DoctorArgs;
use crate::key::KeyArgs;
use crate::new::NewArgs;
use crate::shell::{CompletionsArgs, ManArgs};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The name of the binary that cargo runs.
pub(crate) const OF_CARGO: &str = "cargo-sqs-once";

/// Create, run, check and operate a Lambda function that consumes SQS
#[derive(Parser)]
#[command(name = OF_CARGO, bin_name = "cargo sqs-once", version, after_help = "\
`cargo install cargo-sqs-once` installs this program as `sqs-once` and as `cargo sqs-once`. The crate `sqs-once` is the library.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command line of a binary. Its help and its examples have that binary's name.
pub(crate) fn command(binary: &'static str) -> clap::Command {
    let command = Cli::command();
    if binary == OF_CARGO {
        return command;
    }
    let command = command.name(binary).bin_name(binary);
    command.mut_subcommands(|command| without_cargo(command, binary))
}

fn without_cargo(mut command: clap::Command, binary: &'static str) -> clap::Command {
    if let Some(help) = command.get_after_help().map(ToString::to_string) {
        let renamed = help.replace("cargo sqs-once", binary);
        command = command.after_help(renamed.replace(OF_CARGO, binary));
    }
    command.mut_subcommands(|command| without_cargo(command, binary))
}

#[derive(Subcommand)]
pub(crate) enum Command {
    New(NewArgs),
    Invoke(InvokeArgs),
    Dev(Box<DevArgs>),
    Doctor(DoctorArgs),
    Key(KeyArgs),
    Dlq(DlqArgs),
    Breaker(BreakerArgs),
    #[cfg(feature = "aws")]
    Audit(AuditArgs),
    Postgres(PostgresArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Send one event to the function and show the outcome of each message
///
/// Builds the function and runs the unmodified binary against a local Lambda Runtime API. An embedded DynamoDB
/// remembers earlier runs. Writes the function's response to standard output, and everything else to standard error.
///
/// Fails if the function crashes, hangs, or answers with an error or with a response that Lambda would not accept.
/// Failed messages are a valid response.
#[derive(Args)]
pub(crate) struct InvokeArgs {
    /// An SQS event, one SQS message or a list of them, a bare body, or JSON Lines of bodies; `-` is standard input
    pub(crate) event: PathBuf,

    /// Send the event unchanged, to a function that another service invokes: SNS, EventBridge, S3, a schedule
    #[arg(long, conflicts_with = "format")]
    pub(crate) raw: bool,

    #[command(flatten)]
    pub(crate) function: FunctionArgs,

    /// The form of the table. With `json`, nothing else is written to standard error
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,

    /// How long the function may take, such as 500ms or 2m [default: the template's, or 30s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

/// The form of a result.
#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

impl Format {
    pub(crate) fn is_json(self) -> bool {
        self == Self::Json
    }
}

/// The function that a command runs on this machine.
#[derive(Args)]
pub(crate) struct FunctionArgs {
    /// The function's binary [default: the one that template.yaml names, or the workspace's only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,

    /// Build and run the optimised binary, with the features of its own package only
    #[arg(long)]
    pub(crate) release: bool,

    /// Forget earlier runs and start with an empty database
    #[arg(long)]
    pub(crate) reset: bool,

    /// The SAM template that describes queues, table and function [default: template.yaml in this folder, or else at the workspace's root]
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,

    /// Put the items in this file into the template's tables: {"TABLE": [{"id": {"S": "o-1"}}]}
    #[arg(long, value_name = "FILE")]
    pub(crate) items: Option<PathBuf>,

    /// The folder that is S3; BUCKET/KEY is a file in it [default: target/sqs-once/s3]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) s3: Option<PathBuf>,
}

/// Maintain the table of a PostgreSQL database
#[derive(Args)]
pub(crate) struct PostgresArgs {
    #[command(subcommand)]
    pub(crate) command: PostgresCommand,
}

#[derive(Subcommand)]
pub(crate) enum PostgresCommand {
    DeleteExpired(DeleteExpiredArgs),
}

/// Delete expired rows
///
/// Deletes the rows of `processed_events` that expired at least a day ago, in batches of 1000 that commit separately,
/// until none is left. Keeps rows with a live lease and rows that another session is writing. It can be interrupted and
/// run again at any time, while functions use the table.
///
/// The table is in the first schema of the connection's search_path that has it. The role needs SELECT, UPDATE and DELETE
/// on it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once postgres delete-expired postgresql://USER@HOST/DATABASE
  In the schema `orders`:
    cargo sqs-once postgres delete-expired 'postgresql://USER@HOST/DATABASE?options=-csearch_path%3Dorders'")]
pub(crate) struct DeleteExpiredArgs {
    /// The database [default: DATABASE_URL]
    ///
    /// Other users of this machine can read command-line arguments. Keep a password in the variable instead.
    #[arg(value_name = "URL")]
    pub(crate) database: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Adds the flags of a command and its subcommands. The same name in several commands is one flag.
    fn add_flags(command: &clap::Command, flags: &mut BTreeSet<String>) {
        for argument in command.get_arguments() {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            let names = argument.get_long().into_iter().chain(aliases);
            flags.extend(names.map(str::to_owned));
        }
        for subcommand in command.get_subcommands() {
            add_flags(subcommand, flags);
        }
    }

    #[test]
    fn there_are_at_most_52_flags() {
        let mut flags = BTreeSet::new();
        add_flags(&command(OF_CARGO), &mut flags);
        assert!(flags.contains("state"), "{flags:?}");
        assert!(flags.len() <= 52, "{} flags: {flags:?}", flags.len());
    }
}
