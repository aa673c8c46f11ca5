//! The command line of `sqs-once`: creates, runs, checks and operates a Lambda function that consumes SQS.
//!
//! This library has no public API. It is the program of two binaries, `sqs-once` and `cargo-sqs-once`.

#[cfg(feature = "aws")]
mod audit;
mod breaker;
mod cli;
#[cfg(feature = "aws")]
mod confirm;
#[cfg(feature = "postgres")]
mod delete_expired;
mod dev;
mod dlq;
mod doctor;
mod error;
#[cfg(feature = "aws")]
mod interrupt;
mod invoke;
mod key;
mod launch;
mod new;
mod operate;
mod print;
mod private;
mod shell;
mod workspace;

use clap::FromArgMatches;
#[cfg(feature = "postgres")]
use cli::PostgresCommand;
use cli::{Cli, Command};
use std::process::ExitCode;

/// Runs the command line of a binary: `cargo-sqs-once` or `sqs-once`.
#[tokio::main]
pub async fn run(binary: &'static str) -> ExitCode {
    let parsed = cli::command(binary).try_get_matches_from(arguments());
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let Cli { command } = match parsed {
        Ok(cli) => cli,
        // Help and version contain no arguments, so clap may print them.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            // Without colours, because clap's coloured text contains the arguments unescaped.
            print::to_stderr(print::lines(&error.render().to_string()));
            return ExitCode::from(2);
        }
    };
    // These commands handle Ctrl-C themselves: they finish their current step and release what they hold.
    let listens_itself = matches!(command, Command::Dev(_) | Command::Dlq(_));
    let work = async {
        match command {
            Command::New(arguments) => new::new(arguments)?,
            Command::Invoke(arguments) => invoke::invoke(arguments).await?,
            Command::Dev(arguments) => dev::dev(*arguments).await?,
            Command::Doctor(arguments) => return doctor::doctor(&arguments),
            #[cfg(not(feature = "aws"))]
            Command::Key(_) | Command::Dlq(_) | Command::Breaker(_) => {
                return Err(error::NO_AWS.into());
            }
            #[cfg(feature = "aws")]
            Command::Audit(arguments) => return audit::audit(&arguments),
            #[cfg(feature = "aws")]
            Command::Key(arguments) => key::key(arguments).await?,
            #[cfg(feature = "aws")]
            Command::Dlq(arguments) => dlq::dlq(arguments).await?,
            #[cfg(feature = "aws")]
            Command::Breaker(arguments) => breaker::breaker(arguments).await?,
            #[cfg(not(feature = "postgres"))]
            Command::Postgres(_) => return Err(error::NO_POSTGRES.into()),
            #[cfg(feature = "postgres")]
            Command::Postgres(arguments) => match arguments.command {
                PostgresCommand::DeleteExpired(arguments) => {
                    delete_expired::delete_expired(arguments).await?;
                }
            },
            Command::Completions(arguments) => shell::completions(arguments, binary)?,
            Command::Man(arguments) => shell::man(arguments, binary)?,
        }
        Ok(ExitCode::SUCCESS)
    };
    // Dropping an invocation ends the function, which may not handle the signal itself.
    let done = tokio::select! {
        // Listen before the work starts: until then, the signal would kill the process without a word.
        biased;
        Ok(()) = tokio::signal::ctrl_c(), if !listens_itself => Err(anyhow::anyhow!(error::INTERRUPTED)),
        done = work => done,
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}

/// The arguments without the word `sqs-once`. Cargo passes that word when it runs a subcommand, but not when it runs an
/// alias.
fn arguments() -> Vec<std::ffi::OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|word| word == "sqs-once") {
        arguments.remove(1);
    }
    arguments
}
