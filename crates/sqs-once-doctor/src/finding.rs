//! Findings and their severity.

use crate::field::Place;
use crate::remedy::Remedy;
use crate::rules::Rule;
use std::path::PathBuf;

/// A setting that loses or duplicates messages.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The rule that the deployment breaks.
    pub rule: &'static Rule,
    /// The file.
    pub file: PathBuf,
    /// The position in the file.
    pub place: Place,
    /// The path of the CDK construct that makes the resource, if CDK wrote the file.
    pub construct: Option<String>,
    /// The problem in one sentence.
    pub message: String,
    /// The text to write at that place.
    pub snippet: String,
    /// Whether `Source::fix` writes the snippet.
    pub is_fixable: bool,
    pub(crate) remedy: Remedy,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// A good practice is missing, but no message is lost or duplicated because of it.
    Note,
    /// Messages may be lost or duplicated when something else fails too.
    Warning,
    /// Messages are lost or duplicated, or the function does not work at all.
    Error,
}

impl Severity {
    /// The name of the severity in SARIF and in the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}
