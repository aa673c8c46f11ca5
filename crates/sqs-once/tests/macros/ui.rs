//! The compiler explains each error: `tests/ui/NAME.stderr` contains its output for `NAME.rs`.
//!
//! `UI=overwrite` writes these files.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::compiler::check;

/// This package's folder in the compiler's output.
const PACKAGE: &str = "crates/sqs-once/";

#[test]
fn every_mistake_is_explained_where_it_stands() {
    let overwrites = std::env::var("UI").is_ok_and(|ui| ui == "overwrite");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let entries = [folder.join("bin"), folder.clone()].map(|it| fs::read_dir(it).unwrap());
    let entries = entries.into_iter().flatten();
    let mut programs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    programs.retain(|path| path.extension() == Some(OsStr::new("rs")));
    programs.sort();
    assert!(!programs.is_empty());
    let mut wrong = Vec::new();
    for program in programs {
        let name = program.strip_prefix(&folder).unwrap();
        let output = check(&Path::new(PACKAGE).join("tests/ui").join(name));
        let said = explanation(&String::from_utf8(output.stderr).unwrap());
        let expected = program.with_extension("stderr");
        if output.status.success() {
            wrong.push(format!("{} compiles", name.display()));
        } else if overwrites {
            fs::write(expected, said).unwrap();
        } else if fs::read_to_string(expected).unwrap_or_default() != said {
            let name = name.display();
            wrong.push(format!("{name} is explained otherwise:\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The compiler's output without the parts that depend on other code: line numbers in other files, counts of other
/// types, and the number of errors.
fn explanation(stderr: &str) -> String {
    let errors = stderr.split("\n\nerror: aborting due to ").next().unwrap();
    let errors: Vec<_> = errors.trim_end().split("\n\n").map(one_error).collect();
    errors.join("\n")
}

fn one_error(text: &str) -> String {
    let (mut lines, mut is_elsewhere) = (Vec::new(), false);
    // The digits of the largest line number: in all lines, and in the program's own lines.
    let (mut digits_said, mut digits_kept) = (0, 0);
    for line in text.lines() {
        let start = line.trim_start();
        let indent = &line[..line.len() - start.len()];
        let number = start.bytes().take_while(u8::is_ascii_digit).count();
        digits_said = digits_said.max(number);
        // This part may begin with lines of the program without their position.
        is_elsewhere &= !line.starts_with("help: ");
        lines.push(if let Some(place) = start.strip_prefix("--> ") {
            let own = place.strip_prefix(PACKAGE);
            let own = own.filter(|place| place.starts_with("tests/"));
            is_elsewhere = own.is_none();
            match own {
                Some(place) => format!("{indent}--> {place}"),
                None => {
                    let file = place.split(':').next().unwrap();
                    format!("{indent}--> $WORKSPACE/{file}")
                }
            }
        } else if let Some(place) = start.strip_prefix("::: ") {
            let file = place.split(':').next().unwrap();
            format!("{indent}::: $WORKSPACE/{file}")
        } else if start.starts_with("and ") && start.ends_with(" others") {
            format!("{indent}and $N others")
        } else if is_elsewhere {
            format!("{indent}{:number$}{}", "", &start[number..])
        } else {
            digits_kept = digits_kept.max(number);
            line.to_owned()
        });
    }
    // The margin is as wide as the largest number.
    let surplus = " ".repeat(digits_said - digits_kept);
    let lines = lines.iter();
    lines
        .map(|line| line.strip_prefix(&surplus).unwrap_or(line).to_owned() + "\n")
        .collect()
}
