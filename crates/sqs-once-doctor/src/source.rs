//! A deployment file: reading, examining, fixing.

use crate::error::{ReadError, WriteError, read};
use crate::field::Place;
use crate::manifest::Manifest;
use crate::model::{Deployment, Format};
use crate::remedy::Remedy;
use crate::rules::{Problem, RULES, Rule};
use crate::template::{Style, apply};
use crate::{template, terraform};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// More fixes than any template needs. The doctor makes each fix at most once.
const MOST_FIXES: usize = 500;

/// A template, a plan, or a Terraform configuration.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    /// `None` for a folder with a Terraform configuration.
    text: Option<String>,
    allowed: Vec<&'static str>,
}

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

/// The result of fixing a deployment.
#[derive(Debug)]
pub struct Fixes {
    /// The fixed findings, in the order of the fixes.
    pub fixed: Vec<Finding>,
    /// The findings that remain.
    pub left: Vec<Finding>,
    /// The changed files with their new content.
    pub files: Vec<(PathBuf, String)>,
}

impl Source {
    /// Finds the deployment of the project in `folder`: `template.yaml`, `template.yml` or `template.json`, or else a
    /// Terraform configuration in this folder or in its folder `terraform`, or else the only stack that CDK wrote to
    /// `cdk.out` or `cdk/cdk.out`.
    pub fn find(folder: &Path) -> Option<PathBuf> {
        let templates = ["template.yaml", "template.yml", "template.json"];
        let mut templates = templates.iter().map(|name| folder.join(name));
        let mut configurations = ["", "terraform"].iter().map(|name| folder.join(name));
        let template = templates.find(|path| path.exists());
        template
            .or_else(|| configurations.find(|it| terraform::is_configuration(it)))
            .or_else(|| synthesised(folder))
    }

    /// Reads a file, or the deployment of a folder. Reads the whole folder of a file of a Terraform configuration.
    ///
    /// # Errors
    /// [`ReadError::Io`] if the file cannot be read, and [`ReadError::Folder`] if the folder has no deployment or several.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let folder = match path.parent() {
            Some(folder) if terraform::is_part(path) => folder,
            _ => path,
        };
        if terraform::is_configuration(folder) {
            return Ok(Self {
                path: folder.to_owned(),
                text: None,
                allowed: Vec::new(),
            });
        }
        if path.is_dir() {
            let found = Self::find(path).or_else(|| only(stacks(path)));
            return match found {
                Some(found) => Self::read(&found),
                None => Err(ReadError::Folder {
                    path: path.to_owned(),
                    advice: Self::advice(path),
                }),
            };
        }
        Ok(Self::new(path, read(path)?))
    }

    /// What to do if [`Source::find`] finds nothing in this folder.
    pub fn advice(folder: &Path) -> String {
        let outputs = ["", "cdk.out", "cdk/cdk.out"].iter();
        let stacks = outputs.flat_map(|output| stacks(&folder.join(output)));
        let stacks: Vec<String> = stacks.map(|it| it.display().to_string()).collect();
        let apps = ["cdk.json", "cdk/cdk.json"].map(|app| folder.join(app));
        match apps.iter().find(|app| app.is_file()) {
            _ if !stacks.is_empty() => format!("name one of its stacks: {}", stacks.join(", ")),
            Some(app) => format!(
                "{} is of a CDK app: write its stacks with `npx cdk synth` in its folder first",
                app.display()
            ),
            None => "name the template, the plan or the folder".to_owned(),
        }
    }

    /// Uses `text` as the content of the file `path`, which need not exist.
    pub fn new(path: &Path, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            text: Some(text.into()),
            allowed: Vec::new(),
        }
    }

    /// Omits the findings of these rules.
    pub fn allowing(mut self, rules: impl IntoIterator<Item = &'static Rule>) -> Self {
        self.allowed.extend(rules.into_iter().map(|rule| rule.id));
        self
    }

    /// Parses the deployment.
    ///
    /// # Errors
    /// [`ReadError`] if the text is neither a template nor a plan, or a file of the configuration is not valid.
    pub fn deployment(&self) -> Result<Deployment, ReadError> {
        Ok(self.parsed()?.0.swap_remove(0))
    }

    /// The deployment as far as it does not depend on conditions, and then in each case of them. With it, the position of
    /// each part of a Terraform configuration.
    fn parsed(&self) -> Result<(Vec<Deployment>, HashMap<String, terraform::Spot>), ReadError> {
        let (_, text) = self.marked();
        let (mut deployments, spots) = match terraform::read(text) {
            _ if self.text.is_none() => {
                let (deployment, spots) = terraform::read_configuration(&self.path)?;
                (vec![deployment; 2], spots)
            }
            Some(deployment) => (vec![deployment; 2], HashMap::new()),
            None => (template::read(text)?, HashMap::new()),
        };
        let folder = match self.text {
            Some(_) => self.path.parent().unwrap_or(Path::new("")),
            None => &self.path,
        };
        let functions = deployments.iter().flat_map(|it| &it.functions);
        let code = functions.filter_map(|it| it.code.known());
        let code: BTreeSet<PathBuf> = code.map(|code| folder.join(code)).collect();
        let mut manifests: Vec<Manifest> = Vec::new();
        for folder in [folder.to_owned()].into_iter().chain(code) {
            let manifest = Manifest::find(&folder)?;
            let is_new = |it: &Manifest| !manifests.iter().any(|of| of.path == it.path);
            manifests.extend(manifest.filter(is_new));
        }
        for deployment in &mut deployments {
            deployment.manifests.clone_from(&manifests);
        }
        Ok((deployments, spots))
    }

    /// All findings, ordered by position in the file.
    ///
    /// # Errors
    /// The errors of [`Source::deployment`].
    pub fn examine(&self) -> Result<Vec<Finding>, ReadError> {
        let (deployments, spots) = self.parsed()?;
        let format = deployments[0].format;
        let style = Style::of(self.marked().1);
        let finding = |rule: &'static Rule, mut problem: Problem| {
            let spot = spots.get(&problem.place.resource);
            let file = match (problem.remedy.manifest(), spot) {
                (Some(path), _) => path.clone(),
                (_, Some((file, position))) => {
                    problem.place.position = Some(*position);
                    file.clone()
                }
                (_, None) => self.path.clone(),
            };
            let construct = deployments[0].constructs.get(&problem.place.resource);
            Finding {
                rule,
                construct: construct.filter(|_| file == self.path).cloned(),
                file,
                place: problem.place,
                message: problem.message,
                snippet: problem.remedy.snippet(format, style),
                is_fixable: self.try_fix(format, &problem.remedy).is_some(),
                remedy: problem.remedy,
            }
        };
        let mut findings: Vec<Finding> = Vec::new();
        for rule in RULES.iter().filter(|rule| !self.allowed.contains(&rule.id)) {
            let problems = problems(rule, &deployments[1..]).into_iter();
            findings.extend(problems.map(|problem| finding(rule, problem)));
        }
        findings.sort_by_key(|it| {
            let (is_manifest, file) = (it.remedy.manifest().is_some(), it.file.clone());
            (is_manifest, file, it.place.position, it.rule.id)
        });
        Ok(findings)
    }

    /// Splits off the byte order mark that some editors write.
    fn marked(&self) -> (&str, &str) {
        let all = self.text.as_deref().unwrap_or_default();
        let text = all.strip_prefix('\u{feff}').unwrap_or(all);
        all.split_at(all.len() - text.len())
    }

    /// The file's new content, if the remedy is automatic and applies.
    fn try_fix(&self, format: Format, remedy: &Remedy) -> Option<String> {
        match remedy {
            Remedy::Manifest { path, .. } => Manifest::fixed(path, &fs::read_to_string(path).ok()?),
            Remedy::Deployment {
                changes,
                is_automatic: true,
                ..
            } if format == Format::Template => {
                let (mark, text) = self.marked();
                let changed = apply(text, changes).filter(|changed| changed != text)?;
                Some(format!("{mark}{changed}"))
            }
            Remedy::Deployment { .. } | Remedy::Advice(_) => None,
        }
    }

    /// Applies automatic remedies until none is left.
    ///
    /// # Errors
    /// The errors of [`Source::deployment`].
    pub fn fix(&self) -> Result<Fixes, ReadError> {
        let mut now = self.clone();
        let mut fixes = Fixes {
            fixed: Vec::new(),
            left: Vec::new(),
            files: Vec::new(),
        };
        for _ in 0..MOST_FIXES {
            let mut left = now.examine()?;
            left.retain(|finding| !fixes.files.iter().any(|(path, _)| *path == finding.file));
            let Some(fix) = left.iter().position(|finding| finding.is_fixable) else {
                fixes.left = left;
                break;
            };
            let finding = left.remove(fix);
            let fixed = now.try_fix(Format::Template, &finding.remedy);
            match (&finding.remedy, fixed) {
                (Remedy::Manifest { path, .. }, Some(text)) => {
                    fixes.files.push((path.clone(), text));
                }
                (_, Some(text)) => now.text = Some(text),
                // An earlier fix made this one impossible.
                (_, None) => continue,
            }
            fixes.fixed.push(finding);
        }
        if let Some(text) = now.text.filter(|text| Some(text) != self.text.as_ref()) {
            fixes.files.insert(0, (now.path, text));
        }
        Ok(fixes)
    }
}

impl Fixes {
    /// Replaces each file atomically: readers see the old content or the new content.
    ///
    /// # Errors
    /// [`WriteError::Io`] for the first file that cannot be replaced. That file and the files after it are unchanged.
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

/// The problems that break a rule in some case of the conditions, each once.
fn problems(rule: &Rule, cases: &[Deployment]) -> Vec<Problem> {
    let mut problems: Vec<(Problem, Vec<&Deployment>)> = Vec::new();
    let mut known = HashMap::new();
    for case in cases {
        for problem in (rule.check)(case) {
            let manifest = problem.remedy.manifest().cloned();
            let key = (manifest, problem.place.position, problem.message.clone());
            let at = *known.entry(key).or_insert(problems.len());
            match problems.get_mut(at) {
                Some((_, of)) if of.last().is_some_and(|it| std::ptr::eq(*it, case)) => {}
                Some((_, of)) => of.push(case),
                None => problems.push((problem, vec![case])),
            }
        }
    }
    // Among many conditions, what one of them decides is known only in its own cases.
    let is_partly = cases.len() > 1 && cases.iter().any(|it| it.case.is_empty());
    let is_certain = |of: &[&Deployment]| !is_partly || of.len() == cases.len();
    problems.retain(|(_, of)| !rule.is_unread_part() || is_certain(of));
    let told = |(mut problem, of): (Problem, Vec<&Deployment>)| {
        let shared = |(name, holds): &(&String, &bool)| {
            of.iter().all(|it| it.case.get(*name) == Some(*holds))
                && !cases.iter().all(|it| it.case.get(*name) == Some(*holds))
        };
        let shared = of[0].case.iter().filter(shared);
        let shared: Vec<_> = shared
            .map(|(name, holds)| format!("{name} is {holds}"))
            .collect();
        if !shared.is_empty() {
            let message = problem.message.trim_end_matches('.');
            problem.message = format!("{message}, if {}.", shared.join(" and "));
        }
        problem
    };
    problems.into_iter().map(told).collect()
}

/// The only template in CDK's output.
fn synthesised(folder: &Path) -> Option<PathBuf> {
    let outputs = ["cdk.out", "cdk/cdk.out"].iter();
    outputs
        .map(|output| stacks(&folder.join(output)))
        .find_map(only)
}

/// The templates in CDK's output, by name. CDK writes nested stacks beside the stacks that they belong to.
fn stacks(output: &Path) -> Vec<PathBuf> {
    let is_stack = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".template.json") && !name.ends_with(".nested.template.json")
    };
    let files = fs::read_dir(output).into_iter().flatten().flatten();
    let mut stacks: Vec<PathBuf> = files.map(|file| file.path()).filter(is_stack).collect();
    stacks.sort();
    stacks
}

fn only<T>(mut all: Vec<T>) -> Option<T> {
    all.pop().filter(|_| all.is_empty())
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // Replace the target of a symbolic link, not the link.
    let path = fs::canonicalize(path)?;
    let permissions = fs::metadata(&path)?.permissions();
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}
