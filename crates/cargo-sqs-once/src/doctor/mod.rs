//! `cargo sqs-once doctor`: finds mistakes in a deployment that lose or duplicate messages.

mod report;

use crate::error::Error;
use crate::print;
use clap::Args;
use serde_json::json;
use sqs_once_doctor::{
    Finding, FixError, RULES, ReadError, Rule, Severity, Source, WriteError, sarif,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The template files to look for by default.
const TEMPLATES: [&str; 3] = ["template.yaml", "template.yml", "template.json"];

/// Find mistakes in a deployment that lose or duplicate messages
///
/// Reads a SAM or CloudFormation template, or a plan from `terraform show -json`, and the Cargo.toml above it. Each
/// finding states where it is, why it matters and what to write instead. Values that only the deployment knows, such as
/// parameters, are never findings. docs/doctor.md lists the rules.
///
/// Exits with 1 if it finds an error or a warning. Notes do not count.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  Examine template.yaml of this folder:
    cargo sqs-once doctor

  Write what needs no decision, and show the rest:
    cargo sqs-once doctor template.yaml --fix

  Examine a Terraform plan:
    terraform plan -out plan && terraform show -json plan > plan.json
    cargo sqs-once doctor plan.json

  For code scanning, without one rule:
    cargo sqs-once doctor --sarif --allow dead-letter-alarm-missing > doctor.sarif")]
pub(crate) struct DoctorArgs {
    /// The template or plan [default: template.yaml, template.yml or template.json]
    file: Option<PathBuf>,

    /// Apply the fixes that need no decision to the template and Cargo.toml
    #[arg(long)]
    fix: bool,

    /// Write JSON
    #[arg(long, conflicts_with = "sarif")]
    json: bool,

    /// Write SARIF 2.1.0, which code scanning reads
    #[arg(long)]
    sarif: bool,

    /// Neither report nor fix findings of this rule; may be repeated
    #[arg(long, value_name = "RULE", value_parser = rule)]
    allow: Vec<&'static Rule>,
}

/// Finds a rule by name.
fn rule(name: &str) -> Result<&'static Rule, String> {
    let rule = RULES.iter().find(|rule| rule.id == name);
    rule.ok_or_else(|| {
        let names: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        format!("the rules are {}", names.join(", "))
    })
}

/// Why a deployment was not checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoctorError {
    #[error("there is no {} here: name the template or the plan", TEMPLATES.join(", no "))]
    NoTemplate,
    #[error("{path} was not examined", path = .path.display())]
    Read { path: PathBuf, source: ReadError },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Checks the deployment, and fixes it if requested.
pub(crate) fn doctor(arguments: &DoctorArgs) -> Result<ExitCode, Error> {
    let default = || TEMPLATES.iter().map(Path::new).find(|path| path.exists());
    let path = arguments.file.as_deref().or_else(default);
    let path = path.ok_or(DoctorError::NoTemplate)?;
    let unread = |source| DoctorError::Read {
        path: path.to_owned(),
        source,
    };
    let source = Source::read(path)
        .map_err(unread)?
        .allowing(arguments.allow.iter().copied());
    let (fixed, findings) = if arguments.fix {
        let fixes = source.fix().map_err(|error| match error {
            FixError::Write(error) => DoctorError::Write(error),
            FixError::Read(error) => unread(error),
            // The error type may gain variants.
            error => unread(ReadError::Yaml(Box::new(error))),
        })?;
        fixes.write().map_err(DoctorError::Write)?;
        (fixes.fixed, fixes.left)
    } else {
        (Vec::new(), source.examine().map_err(unread)?)
    };
    let all = |findings: &[_]| findings.iter().map(report::json).collect::<Vec<_>>();
    let json = match (arguments.sarif, arguments.json) {
        (true, _) => Some(sarif(&findings)),
        (_, true) => Some(json!({ "findings": all(&findings), "fixed": all(&fixed) })),
        _ => None,
    };
    print::result(match json {
        Some(json) => print::escaped(&format!("{json:#}")),
        None => report::text(&fixed, &findings),
    })?;
    let is_note = |finding: &Finding| finding.rule.severity == Severity::Note;
    Ok(match findings.iter().all(is_note) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
