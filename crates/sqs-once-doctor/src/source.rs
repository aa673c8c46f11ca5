//! A deployment as a file: read, examined, fixed.

use crate::error::{ReadError, WriteError};
use crate::finding::Finding;
use crate::manifest::Manifest;
use crate::model::{Deployment, Format};
use crate::remedy::Remedy;
use crate::rules::{RULES, Rule};
use crate::template::{Change, Style, apply};
use crate::{template, terraform};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// More fixes than any template needs; each one is made at most once.
const MOST_FIXES: usize = 500;

/// A template or a plan.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    text: String,
    allowed: Vec<&'static str>,
}

/// What fixing changes.
#[derive(Debug)]
pub struct Fixes {
    /// What was fixed, in this order.
    pub fixed: Vec<Finding>,
    /// What is left.
    pub left: Vec<Finding>,
    /// The files that change, with their new texts.
    pub files: Vec<(PathBuf, String)>,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ReadError::Io`] if it can't be read.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let text = fs::read_to_string(path).map_err(|source| ReadError::Io {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::new(path, text))
    }

    /// A text that a file has, or could have.
    pub fn new(path: &Path, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            text: text.into(),
            allowed: Vec::new(),
        }
    }

    /// Without the findings of these rules, which somebody decided to live with.
    pub fn allowing(mut self, rules: impl IntoIterator<Item = &'static Rule>) -> Self {
        self.allowed.extend(rules.into_iter().map(|rule| rule.id));
        self
    }

    /// What is deployed.
    ///
    /// # Errors
    /// [`ReadError`] if it is neither a template nor a plan.
    pub fn deployment(&self) -> Result<Deployment, ReadError> {
        let text = self.text.trim_start_matches('\u{feff}');
        let mut deployment = match terraform::read(text) {
            Some(deployment) => deployment,
            None => template::read(text)?,
        };
        let folder = self.path.parent().unwrap_or(Path::new(""));
        deployment.manifests.extend(Manifest::find(folder)?);
        Ok(deployment)
    }

    /// Everything that is wrong, from top to bottom.
    ///
    /// # Errors
    /// As [`Source::deployment`].
    pub fn examine(&self) -> Result<Vec<Finding>, ReadError> {
        let deployment = self.deployment()?;
        let mut findings: Vec<Finding> = RULES
            .iter()
            .filter(|rule| !self.allowed.contains(&rule.id))
            .flat_map(|rule| {
                (rule.check)(&deployment)
                    .into_iter()
                    .map(move |it| (rule, it))
            })
            .map(|(rule, problem)| {
                let is_fixable = self.try_fix(deployment.format, &problem.remedy).is_some();
                let file = match &problem.remedy {
                    Remedy::Manifest { path, .. } => path.clone(),
                    Remedy::Deployment { .. } => self.path.clone(),
                };
                Finding {
                    rule,
                    file,
                    place: problem.place,
                    message: problem.message,
                    snippet: problem.remedy.snippet(deployment.format, self.style()),
                    is_fixable,
                    remedy: problem.remedy,
                }
            })
            .collect();
        findings.sort_by(|a, b| {
            (a.file != self.path, a.place.position, a.rule.id).cmp(&(
                b.file != self.path,
                b.place.position,
                b.rule.id,
            ))
        });
        findings.dedup_by(|a, b| a.rule.id == b.rule.id && a.message == b.message);
        Ok(findings)
    }

    fn style(&self) -> Style {
        match self.text.trim_start().starts_with('{') {
            true => Style::Json,
            false => Style::Yaml,
        }
    }

    /// The text that a remedy makes of its file, if it is one to make without asking.
    fn try_fix(&self, format: Format, remedy: &Remedy) -> Option<String> {
        match remedy {
            Remedy::Manifest { path, .. } => Manifest::fixed(path, &fs::read_to_string(path).ok()?),
            Remedy::Deployment {
                changes,
                is_automatic: true,
                ..
            } if format == Format::Template => self.changed(changes),
            Remedy::Deployment { .. } => None,
        }
    }

    fn changed(&self, changes: &[Change]) -> Option<String> {
        apply(&self.text, changes).filter(|text| *text != self.text)
    }

    /// Fixes what needs no decision, until nothing of that is left.
    ///
    /// # Errors
    /// As [`Source::deployment`]; [`WriteError::Plan`] for a plan.
    pub fn fix(&self) -> Result<Fixes, FixError> {
        if self.deployment()?.format == Format::TerraformPlan {
            return Err(FixError::Write(WriteError::Plan));
        }
        let mut now = self.clone();
        let mut fixes = Fixes {
            fixed: Vec::new(),
            left: Vec::new(),
            files: Vec::new(),
        };
        for _ in 0..MOST_FIXES {
            let mut left = now.examine()?;
            left.retain(|finding| !fixes.files.iter().any(|(path, _)| *path == finding.file));
            let fix = left.iter().position(|finding| finding.is_fixable);
            let Some(fix) = fix else {
                fixes.left = left;
                break;
            };
            let finding = left.remove(fix);
            match (
                &finding.remedy,
                now.try_fix(Format::Template, &finding.remedy),
            ) {
                (Remedy::Manifest { path, .. }, Some(text)) => {
                    fixes.files.push((path.clone(), text));
                }
                (_, Some(text)) => now.text = text,
                // It could be fixed a moment ago.
                (_, None) => continue,
            }
            fixes.fixed.push(finding);
        }
        if now.text != self.text {
            fixes.files.insert(0, (now.path, now.text));
        }
        Ok(fixes)
    }
}

impl Fixes {
    /// Replaces each file at once: whoever reads it sees the old text or the new one.
    ///
    /// # Errors
    /// [`WriteError::Io`] for the first file that can't be replaced; it, and those after it, are as they were.
    pub fn write(&self) -> Result<(), WriteError> {
        for (path, text) in &self.files {
            replace(path, text).map_err(|source| WriteError::Io {
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // Behind a link is the file that is meant.
    let path = fs::canonicalize(path)?;
    let permissions = fs::metadata(&path)?.permissions();
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}

/// A deployment that can't be fixed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FixError {
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
