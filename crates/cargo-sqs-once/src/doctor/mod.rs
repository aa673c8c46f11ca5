//! `cargo sqs-once doctor`: finds mistakes in a deployment that lose or duplicate messages.

mod report;

use crate::print;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use sqs_once_doctor::{Finding, RULES, Rule, Severity, Source, sarif};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Find mistakes in a deployment that lose or duplicate messages
///
/// Reads a SAM or CloudFormation template, CDK's output, a Terraform configuration, or a plan from
/// `terraform show -json`, and the Cargo.toml above it. Each finding states where it is, why it matters and what to write
/// instead. Values that only the deployment knows, such as parameters without a default, are notes. docs/doctor.md lists
/// the rules.
///
/// Exits with 1 if it finds an error or a warning. Notes do not count. With --strict, exits with 2 if it can't examine a
/// part of the template.
#[derive(Args)]
#[command(after_help = "\
Examples:
  Examine template.yaml of this folder:
    cargo sqs-once doctor

  Write what needs no decision, and show the rest:
    cargo sqs-once doctor template.yaml --fix

  Examine a Terraform configuration:
    cargo sqs-once doctor terraform

  Examine a Terraform plan, which has the values of all variables:
    terraform plan -out plan && terraform show -json plan > plan.json
    cargo sqs-once doctor plan.json

  For code scanning, without one rule:
    cargo sqs-once doctor --format sarif --allow dead-letter-alarm-missing > doctor.sarif")]
pub(crate) struct DoctorArgs {
    /// The template, the plan, or the folder of a Terraform configuration [default: template.yaml, template.yml,
    /// template.json, the .tf files here or in terraform/, or the only stack in cdk.out or cdk/cdk.out]
    file: Option<PathBuf>,

    /// Apply the fixes that need no decision to the template and Cargo.toml
    #[arg(long)]
    fix: bool,

    /// The form of the findings
    #[arg(long, value_enum, default_value_t)]
    format: FindingsFormat,

    /// Exit with 2 if a part of the template was not examined
    #[arg(long)]
    strict: bool,

    /// Neither report nor fix findings of this rule; may be repeated
    #[arg(long, value_name = "RULE", value_parser = rule)]
    allow: Vec<&'static Rule>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum FindingsFormat {
    #[default]
    Text,
    Json,
    /// SARIF 2.1.0, which code scanning reads
    Sarif,
}

fn rule(name: &str) -> Result<&'static Rule, String> {
    let rule = RULES.iter().find(|rule| rule.id == name);
    rule.ok_or_else(|| {
        let names: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        format!("the rules are {}", names.join(", "))
    })
}

pub(crate) fn doctor(arguments: &DoctorArgs) -> Result<ExitCode> {
    let path = arguments.file.clone();
    let path = path.or_else(|| Source::find(Path::new("")));
    let path = path.with_context(|| {
        format!(
            "there is no template.yaml, no template.yml, no template.json, no Terraform configuration and no single \
             stack of CDK here: {}",
            Source::advice(Path::new(""))
        )
    })?;
    let unread = || format!("{} was not examined", path.display());
    let source = Source::read(&path).with_context(unread)?;
    let source = source.allowing(arguments.allow.iter().copied());
    let (fixed, findings) = if arguments.fix {
        let fixes = source.fix().with_context(unread)?;
        fixes.write()?;
        (fixes.fixed, fixes.left)
    } else {
        (Vec::new(), source.examine().with_context(unread)?)
    };
    let all = |findings: &[_]| findings.iter().map(report::json).collect::<Vec<_>>();
    let escaped = |json| print::escaped(&format!("{json:#}"));
    print::result(match arguments.format {
        FindingsFormat::Text => report::text(&fixed, &findings),
        FindingsFormat::Json => {
            escaped(json!({ "findings": all(&findings), "fixed": all(&fixed) }))
        }
        FindingsFormat::Sarif => escaped(sarif(&findings)),
    })?;
    let is_note = |finding: &Finding| finding.rule.severity == Severity::Note;
    let is_unread = |finding: &Finding| finding.rule.is_unread_part();
    Ok(match findings.iter().all(is_note) {
        false => ExitCode::FAILURE,
        true if arguments.strict && findings.iter().any(is_unread) => ExitCode::from(2),
        true => ExitCode::SUCCESS,
    })
}
