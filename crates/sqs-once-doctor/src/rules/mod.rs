//! Rules that find lost or duplicated messages.

mod accounts;
mod alarms;
mod buses;
mod concurrency;
mod dead_letters;
mod delivery;
mod keys;
mod limits;
mod list;
mod permissions;
mod references;
mod senders;
mod settings;
mod table;
mod unknown;

use crate::field::{Field, Place};
use crate::model::{Deployment, Function, Site};
use crate::remedy::Remedy;
pub use list::RULES;
use serde_json::Value;
use std::time::Duration;

/// A requirement on a deployment.
#[derive(Debug)]
pub struct Rule {
    /// Its identifier.
    pub id: &'static str,
    /// The severity of breaking it.
    pub severity: Severity,
    /// The finding in a few words.
    pub title: &'static str,
    /// The reason in one sentence.
    pub why: &'static str,
    /// The page of AWS, or of Cargo, that it follows from.
    pub url: &'static str,
    pub(crate) check: fn(&Deployment) -> Vec<Problem>,
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

impl Rule {
    /// The rule in this project's guide: on docs.rs, or the file of the checkout that this doctor was built from.
    pub fn guide(&self) -> String {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
        let page = match dunce::canonicalize(own) {
            Ok(file) => format!("file://{}", file.display()),
            Err(_) => "https://docs.rs/sqs-once/latest/sqs_once/guide/doctor/index.html".to_owned(),
        };
        format!("{page}#{}", self.id)
    }

    /// Whether a finding is a part of the deployment that the doctor can't read, and not a mistake in it.
    pub fn is_unread_part(&self) -> bool {
        self.id == UNREAD
    }
}

/// The rule that reports what the doctor can't read.
const UNREAD: &str = "part-not-examined";

/// A property in a template, and the argument in Terraform's language, with `{}` for the value.
#[derive(Clone, Copy)]
struct Setting(&'static [&'static str], &'static str);

const RECEIVES: Setting = Setting(
    &["RedrivePolicy", "maxReceiveCount"],
    "maxReceiveCount = {} # in redrive_policy",
);

/// One violation of a rule.
pub(crate) struct Problem {
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) remedy: Remedy,
}

impl Problem {
    fn at(place: &Place, message: String, remedy: Remedy) -> Self {
        let place = place.clone();
        Self {
            place,
            message,
            remedy,
        }
    }

    /// A setting with a wrong value, or without one, and the right value.
    fn set<T>(
        field: &Field<T>,
        site: &Site,
        Setting(property, argument): Setting,
        value: impl Into<Value>,
        message: String,
    ) -> Self {
        let value = value.into();
        let hcl = argument.replace("{}", &value.to_string());
        let remedy = Remedy::set(field, site, property, value, hcl);
        Self::at(site.place_of(field), message, remedy)
    }

    /// An environment variable with a wrong value, and the right value.
    fn variable(
        field: &Field<String>,
        function: &Function,
        name: &str,
        value: &str,
        message: String,
    ) -> Self {
        let names = ["Environment", "Variables", name];
        let hcl = format!("{name} = \"{value}\"");
        let remedy = Remedy::set(field, &function.site, &names, value, hcl);
        Self::at(function.site.place_of(field), message, remedy)
    }

    fn automatic_if(mut self, condition: bool) -> Self {
        self.remedy = self.remedy.automatic_if(condition);
        self
    }

    fn by_hand(self) -> Self {
        self.automatic_if(false)
    }
}

/// The problems of those parts of a deployment that break a rule.
fn found<T>(
    parts: impl Iterator<Item = T>,
    problem: impl FnMut(T) -> Option<Problem>,
) -> Vec<Problem> {
    parts.filter_map(problem).collect()
}

/// A duration for messages, for example `30 s` or `4 days`.
fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 86_400, seconds % 86_400) {
        (1, 0) => "1 day".to_owned(),
        (days, 0) if days > 0 => format!("{days} days"),
        _ => format!("{seconds} s"),
    }
}
