//! `cargo sqs-once completions` and `man`: scripts and pages generated from the command line's definition.

use crate::cli::Cli;
use crate::print;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

/// The name of the binary that cargo runs and shells complete.
const BINARY: &str = "cargo-sqs-once";
const BASH_NAME: &str = "cargo_sqs_once";

/// The generated script completes `cargo-sqs-once`. This addition also completes `cargo sqs-once`, and leaves all other
/// words of cargo to the previous completion.
const BASH_CARGO: &str = include_str!("completions/cargo.bash");

/// Write a shell's completion script to standard output
///
/// The bash script also completes `cargo sqs-once`, if it is loaded after cargo's own completions. In zsh, cargo's
/// completions call the script. In other shells it completes `cargo-sqs-once`, which is the same command.
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
    /// The subcommand whose page to write [default: the main page, which lists all subcommands]
    command: Option<String>,

    /// Write the pages of all subcommands into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Writes the completion script.
pub(crate) fn completions(args: CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    let mut command = Cli::command();
    if args.shell == Shell::Bash {
        // clap_complete's bash script finds no subcommands if the binary's name has hyphens. Only the last word of its
        // `complete` lines needs them.
        clap_complete::generate(args.shell, &mut command, BASH_NAME, &mut script);
        let script = String::from_utf8_lossy(&script);
        let script = script.replace(&format!(" {BASH_NAME}\n"), &format!(" {BINARY}\n"));
        return print::result(format!("{script}\n{}", BASH_CARGO.trim_end()));
    }
    clap_complete::generate(args.shell, &mut command, BINARY, &mut script);
    print::result(script.trim_ascii_end())
}

/// Writes one page, or all of them.
pub(crate) fn man(args: ManArgs) -> Result<()> {
    // The `help` subcommand needs no page.
    let mut command = Cli::command().disable_help_subcommand(true);
    if let Some(folder) = args.dir {
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(command, &folder));
        return written
            .with_context(|| format!("the pages can't be written to {}", folder.display()));
    }
    // Gives the subcommands their full names.
    command.build();
    let page = match args.command {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(&name).cloned();
            found.with_context(|| {
                let known = command.get_subcommands().map(|one| one.get_name());
                let known = known.collect::<Vec<_>>().join(", ");
                let name = print::one_line(&name);
                format!("there is no subcommand `{name}`; there are: {known}")
            })?
        }
    };
    let mut text = Vec::new();
    let rendered = Man::new(page).render(&mut text);
    rendered.context(print::UNWRITTEN)?;
    print::result(text.trim_ascii_end())
}
