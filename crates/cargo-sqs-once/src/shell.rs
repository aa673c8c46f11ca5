//! `cargo sqs-once completions` and `man`: what a shell and `man` read, made of the command line itself.

use crate::cli::Cli;
use crate::error::Error;
use crate::print;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;
use std::path::PathBuf;

/// How cargo calls it, and the name that shells complete.
const BINARY: &str = "cargo-sqs-once";
const BASH_NAME: &str = "cargo_sqs_once";

/// The script completes the words of `cargo-sqs-once`; this makes it complete those of `cargo sqs-once` too, and leaves
/// all other words of cargo to what completed them before.
const BASH_CARGO: &str = include_str!("completions/cargo.bash");

/// Write a shell's completion script to standard output
///
/// In bash it completes `cargo sqs-once` as well, if it is read after cargo's own completions. In zsh cargo's completions
/// ask it. Elsewhere it completes `cargo-sqs-once`, which is the same command.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  echo 'source <(cargo sqs-once completions bash)' >> ~/.bashrc
  cargo sqs-once completions zsh > ~/.zfunc/_cargo-sqs-once
  cargo sqs-once completions fish > ~/.config/fish/completions/cargo-sqs-once.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write the manual page to standard output, or all pages to a folder
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once man invoke | man -l -
  cargo sqs-once man --dir ~/.local/share/man/man1 && man cargo-sqs-once-invoke")]
pub(crate) struct ManArgs {
    /// The page of this subcommand [default: the one that lists them all]
    command: Option<String>,

    /// Write a page for every subcommand into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// A page can't be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManError {
    #[error("there is no subcommand `{name}`; there are: {known}")]
    NoSuchCommand { name: String, known: String },
    #[error("the pages can't be written to {folder}", folder = folder.display())]
    Write { folder: PathBuf, source: io::Error },
}

/// Writes the script.
pub(crate) fn completions(args: CompletionsArgs) -> Result<(), Error> {
    let mut script = Vec::new();
    let mut command = Cli::command();
    if args.shell == Shell::Bash {
        // With hyphens in the binary's name, what this version of clap_complete writes for bash knows no subcommands:
        // only the last word of the script's registrations needs them.
        clap_complete::generate(args.shell, &mut command, BASH_NAME, &mut script);
        let script = String::from_utf8_lossy(&script);
        let script = script.replace(&format!(" {BASH_NAME}\n"), &format!(" {BINARY}\n"));
        return print::result(format!("{script}\n{}", BASH_CARGO.trim_end()).as_bytes());
    }
    clap_complete::generate(args.shell, &mut command, BINARY, &mut script);
    print::result(script.trim_ascii_end())
}

/// Writes a page, or all of them.
pub(crate) fn man(args: ManArgs) -> Result<(), Error> {
    // It has nothing to say that needs a page.
    let mut command = Cli::command().disable_help_subcommand(true);
    if let Some(folder) = args.dir {
        let write = |source| ManError::Write {
            folder: folder.clone(),
            source,
        };
        std::fs::create_dir_all(&folder).map_err(write)?;
        return Ok(clap_mangen::generate_to(command, &folder).map_err(write)?);
    }
    // Names the subcommands in full.
    command.build();
    let page = match args.command {
        None => command,
        Some(name) => match command.find_subcommand(&name) {
            Some(command) => command.clone(),
            None => {
                let known: Vec<&str> = command
                    .get_subcommands()
                    .map(|one| one.get_name())
                    .collect();
                return Err(ManError::NoSuchCommand {
                    name: print::one_line(&name),
                    known: known.join(", "),
                }
                .into());
            }
        },
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text).map_err(Error::Output)?;
    print::result(text.trim_ascii_end())
}
