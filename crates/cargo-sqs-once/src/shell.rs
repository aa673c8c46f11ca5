//! `cargo sqs-once completions` and `man`: scripts and pages generated from the command line's definition.

use crate::cli::{self, OF_CARGO};
use crate::print;
use anyhow::{Context, Result};
use clap_complete::Shell;
use std::path::PathBuf;

/// The generated script completes `cargo-sqs-once`. This addition also completes `cargo sqs-once`, and leaves all other
/// words of cargo to the previous completion.
const BASH_CARGO: &str = include_str!("completions/cargo.bash");

/// Write a shell's completion script to standard output
///
/// The script completes the name that this help has. In bash, that of `cargo-sqs-once` also completes `cargo sqs-once`, if
/// it is loaded after cargo's own completions. In zsh, cargo's completions call it.
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

/// Write the manual pages of all commands to a folder
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once man ~/.local/share/man/man1 && man cargo-sqs-once-invoke")]
pub(crate) struct ManArgs {
    /// The folder
    folder: PathBuf,
}

pub(crate) fn completions(args: CompletionsArgs, binary: &'static str) -> Result<()> {
    let mut script = Vec::new();
    let mut command = cli::command(binary);
    if args.shell == Shell::Bash {
        // clap_complete's bash script finds no subcommands if the binary's name has hyphens. Only the last word of its
        // `complete` lines needs them.
        let name = binary.replace('-', "_");
        clap_complete::generate(args.shell, &mut command, &name, &mut script);
        let script = String::from_utf8_lossy(&script);
        let script = script.replace(&format!(" {name}\n"), &format!(" {binary}\n"));
        let addition = if binary == OF_CARGO { BASH_CARGO } else { "" };
        return print::result(format!("{script}\n{addition}").trim_end());
    }
    clap_complete::generate(args.shell, &mut command, binary, &mut script);
    print::result(script.trim_ascii_end())
}

pub(crate) fn man(args: ManArgs, binary: &'static str) -> Result<()> {
    // The `help` subcommand needs no page.
    let command = cli::command(binary).disable_help_subcommand(true);
    std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(command, &args.folder))
        .with_context(|| format!("the pages can't be written to {}", args.folder.display()))
}
