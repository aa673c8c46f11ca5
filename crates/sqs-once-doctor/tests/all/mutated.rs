//! Damaged templates and plans are examined and fixed, or rejected with an error.

#![allow(clippy::print_stdout, reason = "a test that says its seed")]

use crate::examples;
use fastrand::Rng;
use sqs_once_doctor::{Source, sarif};
use std::fs;
use std::path::Path;

/// The minimum number of damaged inputs that must parse, and the minimum number that must be fixed.
const EXAMINED: usize = 100;
const FIXED: usize = 40;

/// The templates with findings, and the plans.
fn texts() -> Vec<String> {
    let templates = examples::rules().map(|it| examples::template(it.id, "bad"));
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let plans = fs::read_dir(plans).unwrap();
    let plans = plans.map(|plan| fs::read_to_string(plan.unwrap().path()).unwrap());
    let mut texts: Vec<String> = templates.chain(plans).collect();
    texts.sort();
    texts
}

/// Deletes, duplicates, moves or truncates a line, or inserts unrelated text.
fn damage(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..lines.len());
        let other = rng.usize(..lines.len());
        match rng.u8(..8) {
            0 if lines.len() > 1 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => {
                let end = rng.usize(..=lines[at].chars().count());
                lines[at] = lines[at].chars().take(end).collect();
            }
            4 => lines[at].insert_str(0, "  "),
            5 => lines[at] = lines[at].replace(": ", ": !If [A, B, "),
            6 => {
                let odd = "{,],!,&a,*a,',\u{0},é🦀,- ,: ,null,|,>-,\t,18446744073709551615";
                let odd: Vec<&str> = odd.split(',').collect();
                lines[at].push_str(odd[rng.usize(..odd.len())]);
            }
            _ => {
                let is_digit = |char: char| char.is_ascii_digit();
                lines[at] = lines[at].replace(is_digit, "9999999999999999999");
            }
        }
    }
    lines.join("\n")
}

#[test]
fn damaged_deployments_are_examined_and_fixed_or_refused_but_nothing_panics() {
    let seed = std::env::var("DOCTOR_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("DOCTOR_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let texts = texts();
    let (mut examined, mut fixed) = (0, 0);
    for round in 0.. {
        if examined >= EXAMINED && fixed >= FIXED {
            break;
        }
        assert!(round < 100 * EXAMINED, "{examined} examined, {fixed} fixed");
        let text = damage(&texts[rng.usize(..texts.len())], &mut rng);
        let source = Source::new(Path::new("/nowhere/template.yaml"), text);
        let Ok(findings) = source.examine() else {
            continue;
        };
        examined += 1;
        sarif(&findings);
        let Ok(fixes) = source.fix() else { continue };
        let Some((path, text)) = fixes.files.first() else {
            continue;
        };
        fixed += 1;
        // The fixed text parses and needs no further fix.
        let again = Source::new(path, text.as_str()).fix().unwrap();
        assert!(again.files.is_empty(), "{text}");
    }
}
