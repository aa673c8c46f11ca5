//! What was found.

use crate::field::Place;
use crate::remedy::Remedy;
use crate::rules::Rule;
use std::path::PathBuf;

/// Something that loses or doubles messages.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Which rule it breaks.
    pub rule: &'static Rule,
    /// The file it is in.
    pub file: PathBuf,
    /// Where it is.
    pub place: Place,
    /// What is wrong, in a sentence.
    pub message: String,
    /// What to write there instead.
    pub snippet: String,
    /// Whether `Source::fix` writes that.
    pub is_fixable: bool,
    pub(crate) remedy: Remedy,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// A good practice is missing. No message is lost or doubled for that.
    Note,
    /// It may lose or double messages when something else goes wrong.
    Warning,
    /// It loses or doubles messages, or nothing works.
    Error,
}

impl Severity {
    /// As SARIF and people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}
