//! `cargo sqs-once`: run a Lambda function that consumes SQS on this machine, and keep its table small.

mod cli;
#[cfg(feature = "postgres")]
mod delete_expired;
mod doctor;
mod error;
mod invoke;
mod print;
mod workspace;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { command } = Cli::parse_from(arguments());
    let work = async {
        match command {
            Command::Invoke(arguments) => invoke::invoke(arguments).await.map(succeeded),
            #[cfg(not(feature = "postgres"))]
            Command::DeleteExpired(_) => Err(error::Error::NoPostgres),
            #[cfg(feature = "postgres")]
            Command::DeleteExpired(arguments) => delete_expired::delete_expired(arguments)
                .await
                .map(succeeded),
            Command::Doctor(arguments) => doctor::doctor(&arguments),
        }
    };
    // Dropping an invocation ends the function, which may not listen to the signal itself.
    let done = tokio::select! {
        done = work => done,
        Ok(()) = tokio::signal::ctrl_c() => Err(error::Error::Interrupted),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn succeeded((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

/// The arguments without the word `sqs-once`, which cargo passes on when it runs a subcommand but
/// not when it runs an alias.
fn arguments() -> impl Iterator<Item = std::ffi::OsString> {
    let is_cargos =
        |(index, argument): &(usize, std::ffi::OsString)| *index == 1 && argument == "sqs-once";
    std::env::args_os()
        .enumerate()
        .filter(move |argument| !is_cargos(argument))
        .map(|(_, argument)| argument)
}
