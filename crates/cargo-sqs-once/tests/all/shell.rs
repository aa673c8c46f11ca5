//! Tests `cargo sqs-once completions` and `man`, and how bash uses the script.

use std::fs;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cargo-sqs-once"))
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The subcommands, as the help lists them.
fn subcommands() -> Vec<String> {
    let help = stdout(&["--help"]);
    let (_, commands) = help.split_once("Commands:\n").unwrap();
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
    fs::write(&script, stdout(&["completions", "bash"])).unwrap();
    // Do what bash does on a TAB: call the function that `complete` names for the first word.
    let ask = "
        source \"$SCRIPT\"
        COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        registered=$(complete -p \"$1\")
        function=${registered##* -F } function=${function%% *}
        \"$function\" \"$1\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"
    ";
    let output = Command::new("bash")
        .args(["--norc", "-c", &format!("{before}\n{ask}"), "bash"])
        .args(words)
        .env("SCRIPT", &script)
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    let offered = String::from_utf8(output.stdout).unwrap();
    offered
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_the_binary() {
    let all = completed("", &["cargo-sqs-once", ""]);
    for command in subcommands() {
        assert!(all.contains(&command), "{command} is not among {all:?}");
    }
    assert_eq!(completed("", &["cargo-sqs-once", "inv"]), ["invoke"]);
    let options = completed("", &["cargo-sqs-once", "new", "--po"]);
    assert_eq!(options, ["--postgres"]);
    let options = completed("", &["cargo-sqs-once", "delete-expired", "--ba"]);
    assert_eq!(options, ["--batch"]);
}

#[test]
fn bash_completes_the_subcommand_of_cargo() {
    assert_eq!(completed("", &["cargo", "sqs-once", "inv"]), ["invoke"]);
    // The word under the cursor does not exist yet.
    assert_eq!(completed("", &["cargo", "sqs-once", "new"]), ["new"]);
    let options = completed("", &["cargo", "sqs-once", "new", "--po"]);
    assert_eq!(options, ["--postgres"]);
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
        for command in subcommands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
    // cargo's own zsh completions look up a subcommand's function by this name.
    assert!(stdout(&["completions", "zsh"]).contains("\n_cargo-sqs-once() {"));
    assert_eq!(run(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn the_manual_lists_every_subcommand_and_each_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let man1 = folder.path().join("share/man/man1");
    assert!(
        stdout(&["man", "--dir", man1.to_str().unwrap()])
            .trim()
            .is_empty()
    );
    let page = |name: &str| fs::read_to_string(man1.join(name)).unwrap();

    let main = page("cargo-sqs-once.1");
    assert!(main.contains(".TH cargo-sqs-once 1"), "{main}");
    assert_eq!(main, stdout(&["man"]));
    for command in subcommands().iter().filter(|command| *command != "help") {
        let escaped = command.replace('-', "\\-");
        assert!(
            main.contains(&format!("cargo\\-sqs\\-once\\-{escaped}(1)")),
            "{command}"
        );
        let page = page(&format!("cargo-sqs-once-{command}.1"));
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
        assert_eq!(page, stdout(&["man", command]), "{command}");
    }
}

#[test]
fn a_page_that_is_not_there_is_an_error_that_names_those_that_are() {
    let output = run(&["man", "nothing"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("there is no subcommand `nothing`; there are: new, invoke"),
        "{error}"
    );
}

#[test]
fn pages_that_can_not_be_written_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = run(&["man", "--dir", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("the pages can't be written to"), "{error}");
}
