//! Tests `cargo sqs-once completions` and `man`, and how bash uses the script.

use crate::project::{Run, command, command_of};
use std::fs;
use std::process::Command;

/// The paths and the names of both binaries.
const BINARIES: [(&str, &str); 2] = [
    (env!("CARGO_BIN_EXE_cargo-sqs-once"), "cargo-sqs-once"),
    (env!("CARGO_BIN_EXE_sqs-once"), "sqs-once"),
];

fn run(arguments: &[&str]) -> Run {
    Run::of(command(arguments))
}

fn stdout(arguments: &[&str]) -> String {
    let run = run(arguments);
    run.assert_done();
    run.stdout
}

/// The subcommands of a command, as its help lists them.
fn subcommands(of: &[&str]) -> Vec<String> {
    let help = stdout(&[of, &["--help"]].concat());
    let (_, commands) = help.split_once("Commands:\n").unwrap_or_default();
    let lines = commands.lines().take_while(|line| !line.is_empty());
    // A description may continue on the next line.
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The words that bash offers for the last of these, after it has read `before` and then the script.
fn completed(before: &str, words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    let own = BINARIES.iter().find(|(_, name)| *name == words[0]);
    let (binary, _) = own.unwrap_or(&BINARIES[0]);
    let completions = Run::of(command_of(binary, &["completions", "bash"]));
    fs::write(&script, completions.stdout).unwrap();
    // Do what bash does on a TAB: call the function that `complete` names for the first word.
    let ask = "
        source \"$SCRIPT\"
        COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        registered=$(complete -p \"$1\")
        function=${registered##* -F } function=${function%% *}
        \"$function\" \"$1\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"
    ";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &format!("{before}\n{ask}"), "bash"])
        .args(words)
        .env("SCRIPT", &script);
    let run = Run::of(bash);
    assert_eq!(run.stderr, "");
    let offered = run.stdout.lines().filter(|line| !line.is_empty());
    offered.map(str::to_owned).collect()
}

#[test]
fn bash_completes_both_binaries() {
    for (_, name) in BINARIES {
        let all = completed("", &[name, ""]);
        for command in subcommands(&[]) {
            assert!(all.contains(&command), "{command} is not among {all:?}");
        }
        assert_eq!(completed("", &[name, "inv"]), ["invoke"]);
        let options = completed("", &[name, "key", "list", "--st"]);
        assert_eq!(options, ["--state"]);
    }
}

#[test]
fn bash_completes_the_subcommand_of_cargo() {
    for (words, offered) in [
        (&["inv"][..], "invoke"),
        // The word under the cursor does not exist yet.
        (&["new"], "new"),
        (&["new", "--eff"], "--effect"),
    ] {
        let words = [&["cargo", "sqs-once"], words].concat();
        assert_eq!(completed("", &words), [offered]);
    }
}

#[test]
fn cargos_own_words_are_completed_as_before() {
    let before = "_cargo() { COMPREPLY=(\"cargo's $2\"); }; complete -F _cargo -o default cargo";
    assert_eq!(completed(before, &["cargo", "bui"]), ["cargo's bui"]);
    let twice = format!("{before}; source \"$SCRIPT\"");
    assert_eq!(completed(&twice, &["cargo", "bui"]), ["cargo's bui"]);
    assert_eq!(completed(before, &["cargo", "sqs-once", "inv"]), ["invoke"]);
    assert!(completed("", &["cargo", "bui"]).is_empty());
}

#[test]
fn every_shell_has_a_script_with_every_subcommand() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&["completions", shell]);
        for command in subcommands(&[]) {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
    // cargo's own zsh completions look up a subcommand's function by this name.
    assert!(stdout(&["completions", "zsh"]).contains("\n_cargo-sqs-once() {"));
    run(&["completions", "tcsh"]).assert_refused_with("");
}

#[test]
fn the_manual_lists_every_subcommand_and_each_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let man1 = folder.path().join("share/man/man1");
    for (binary, name) in BINARIES {
        let man = [binary, "man", man1.to_str().unwrap()];
        Run::of(command_of(man[0], &man[1..])).assert_done();
        let page = |name: &str| fs::read_to_string(man1.join(name)).unwrap();
        let main = page(&format!("{name}.1"));
        assert!(main.contains(&format!(".TH {name} 1")), "{main}");
        for command in subcommands(&[]).iter().filter(|command| *command != "help") {
            let link = format!("{name}-{command}(1)").replace('-', "\\-");
            assert!(main.contains(&link), "{command}");
            let page = page(&format!("{name}-{command}.1"));
            assert!(page.contains(".SH SYNOPSIS"), "{command}");
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    run(&["man", file.path().to_str().unwrap()])
        .assert_failed_with("the pages can't be written to");
}

#[test]
fn both_binaries_are_one_program_and_their_help_has_their_own_names() {
    for words in [&["--help"][..], &["doctor", "-h"], &["new", "-h"]] {
        let [of_cargo, own] = BINARIES.map(|(binary, _)| Run::of(command_of(binary, words)).stdout);
        of_cargo.lines().zip(own.lines()).for_each(|(line, own)| {
            let is_install = line.contains("`cargo install cargo-sqs-once`");
            let renamed = line.replace("cargo sqs-once", "sqs-once");
            assert!(is_install || own == renamed, "{line:?} {own:?}");
        });
        assert!(of_cargo.contains("cargo sqs-once ") && own.contains("Usage: sqs-once "));
    }
}

#[cfg(unix)]
#[test]
fn sqs_once_alone_names_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("sqs-once");
    fs::copy(BINARIES[1].0, &alone).unwrap();
    let run = Run::of(Command::new(alone));
    run.assert_failed_with("cargo-sqs-once, beside sqs-once, can't be run");
    run.says("cargo install cargo-sqs-once");
}

#[test]
fn the_help_of_every_command_with_examples_ends_with_them() {
    for command in ["new", "dev", "doctor", "key", "dlq", "completions", "man"] {
        let mut all = vec![vec![command]];
        let inner = subcommands(&[command]);
        let inner = inner.iter().filter(|inner| *inner != "help");
        all.extend(inner.map(|inner| vec![command, inner]));
        for words in all {
            for help in ["-h", "--help"] {
                let help = stdout(&[&words[..], &[help]].concat());
                let (_, examples) = help.split_once("Examples:\n").unwrap_or_default();
                let own = format!("cargo sqs-once {}", words.join(" "));
                assert!(examples.contains(&own), "{own}: {help}");
            }
        }
    }
}
