//! Remedies for findings, in the language of the deployment.

use crate::field::{Field, Path, Step};
use crate::model::{Format, Site};
use crate::template::{Change, Style, snippet};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A remedy for a finding.
#[derive(Debug, Clone)]
pub(crate) enum Remedy {
    /// Changes to the template, and the equivalent Terraform.
    Deployment {
        changes: Vec<Change>,
        hcl: String,
        /// Whether the change can be made without a decision by the user.
        is_automatic: bool,
    },
    /// What the user does instead of a change.
    Advice(&'static str),
    /// `panic = "unwind"` in a manifest.
    Manifest { path: PathBuf, profile: String },
}

impl Remedy {
    /// Sets a property of a resource: at the position of its current value, or else at the resource.
    pub(crate) fn set<T>(
        field: &Field<T>,
        site: &Site,
        names: &[&str],
        value: impl Into<Value>,
        hcl: impl Into<String>,
    ) -> Self {
        let path = site.path_of(field, names);
        let hcl = format!("# {}\n{}", site.id, hcl.into());
        Self::changes(vec![Change::Set(path, value.into())], hcl)
    }

    pub(crate) fn changes(changes: Vec<Change>, hcl: impl Into<String>) -> Self {
        // Both branches of a condition need the change, and an automatic fix would change only one.
        let is_conditional = |change: &Change| {
            let (Change::Set(path, _) | Change::Append(path, _)) = change;
            path.contains(&Step::Key("Fn::If".into()))
        };
        Remedy::Deployment {
            is_automatic: !changes.is_empty() && !changes.iter().any(is_conditional),
            changes,
            hcl: hcl.into(),
        }
    }

    /// The same remedy, for the user to apply unless the condition holds.
    pub(crate) fn automatic_if(mut self, condition: bool) -> Self {
        if let Remedy::Deployment { is_automatic, .. } = &mut self {
            *is_automatic &= condition;
        }
        self
    }

    /// The manifest that it changes, instead of the deployment.
    pub(crate) fn manifest(&self) -> Option<&PathBuf> {
        match self {
            Remedy::Manifest { path, .. } => Some(path),
            Remedy::Deployment { .. } | Remedy::Advice(_) => None,
        }
    }

    /// The remedy as text to copy.
    pub(crate) fn snippet(&self, format: Format, style: Style) -> String {
        match (self, format) {
            (Remedy::Manifest { profile, .. }, _) => {
                format!("[profile.{profile}]\npanic = \"unwind\"")
            }
            (Remedy::Advice(text), _) => (*text).to_owned(),
            (Remedy::Deployment { hcl, .. }, Format::Terraform) => hcl.clone(),
            (Remedy::Deployment { changes, .. }, Format::Template | Format::CdkTemplate) => {
                let snippets = changes.iter().map(|change| match change {
                    Change::Set(path, value) => snippet(path, value, style),
                    Change::Append(path, value) => snippet(path, &json!([value]), style),
                });
                snippets.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// Adds a resource to the template, under the condition of the resource that it is for.
pub(crate) fn resource(id: &str, mut value: Value, of: &Site) -> Change {
    if let Some(condition) = &of.condition {
        value["Condition"] = json!(condition);
    }
    let path: Path = vec!["Resources".into(), id.into()];
    Change::Set(path, value)
}
