//! Renders the project template. `cargo lambda new --template` can read the same folder.

use anyhow::{Context, Result};
use include_dir::{Dir, DirEntry, include_dir};
use liquid::{Object, Parser, ParserBuilder, ValueView, object};
use serde::Deserialize;
use std::collections::HashMap;

static TEMPLATE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/template");

const SETTINGS: &str = "CargoLambda.toml";

/// The user's choices.
pub(super) struct Choices {
    pub(super) fifo: bool,
    /// Where messages come from: `sqs`, `sns` or `bus`.
    pub(super) source: String,
    /// Where a message takes effect: `elsewhere`, `dynamodb` or `postgres`.
    pub(super) effect: String,
    /// The tool that deploys the project: `sam`, `terraform` or `cdk`.
    pub(super) iac: String,
    /// The checkout to depend on, or the git URL, which may have a `#` and a commit.
    pub(super) sqs_once: Option<String>,
}

pub(super) struct File {
    /// The path relative to the project's folder, with slashes.
    pub(super) path: String,
    pub(super) content: String,
}

/// The parts of `CargoLambda.toml` that this template uses.
#[derive(Deserialize)]
struct Settings {
    template: TemplateSettings,
}

#[derive(Deserialize)]
struct TemplateSettings {
    ignore_files: Vec<String>,
    ignore_conditional_files: HashMap<String, Condition>,
}

/// Leaves a file out if the variable has this value (`match`), or has another value (`not_match`).
#[derive(Deserialize)]
struct Condition {
    var: String,
    r#match: Option<String>,
    not_match: Option<String>,
}

impl Condition {
    fn holds(&self, variables: &Object) -> bool {
        let value = variables.get(&*self.var).map(|value| value.to_kstr());
        let value = value.as_deref();
        let is = |expected: &Option<String>| expected.as_deref() == value;
        (self.r#match.is_some() && is(&self.r#match))
            || (self.not_match.is_some() && !is(&self.not_match))
    }
}

/// The project's files, sorted by path.
pub(super) fn render(name: &str, choices: &Choices) -> Result<Vec<File>> {
    let variables = variables(name, choices);
    let settings = TEMPLATE.get_file(SETTINGS);
    let settings = settings.and_then(|file| file.contents_utf8());
    let settings: Settings = toml::from_str(settings.unwrap_or_default())
        .with_context(|| format!("the template's {SETTINGS} can't be read"))?;
    let settings = settings.template;
    let parser = ParserBuilder::with_stdlib().build()?;

    let mut files = Vec::new();
    for (path, text) in sources(&TEMPLATE)? {
        let condition = settings.ignore_conditional_files.get(&path);
        if settings.ignore_files.contains(&path)
            || condition.is_some_and(|condition| condition.holds(&variables))
        {
            continue;
        }
        // The manifest's name is a template too. Cargo would treat a folder with a real Cargo.toml as a separate
        // package and leave it out of this one.
        files.push(File {
            content: liquid(&parser, &path, text, &variables)?,
            path: liquid(&parser, &path, &path, &variables)?,
        });
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn variables(name: &str, choices: &Choices) -> Object {
    object!({
        "project_name": name,
        "queue": if choices.fifo { "fifo" } else { "standard" },
        "source": choices.source,
        "effect": choices.effect,
        "iac": choices.iac,
        "sqs_once": choices.sqs_once.as_deref().map(in_quotes).unwrap_or_default(),
    })
}

/// Escapes a text for a TOML string, which accepts JSON's escapes.
fn in_quotes(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The path and text of every file in the folder and its subfolders.
fn sources(folder: &'static Dir<'static>) -> Result<Vec<(String, &'static str)>> {
    let mut sources = Vec::new();
    for entry in folder.entries() {
        match entry {
            DirEntry::Dir(folder) => sources.extend(self::sources(folder)?),
            DirEntry::File(file) => {
                let path = file.path().to_string_lossy().replace('\\', "/");
                let text = file.contents_utf8();
                let text =
                    text.with_context(|| format!("the template's file {path} is not text"))?;
                sources.push((path, text));
            }
        }
    }
    Ok(sources)
}

fn liquid(parser: &Parser, path: &str, text: &str, variables: &Object) -> Result<String> {
    let template = parser.parse(text);
    let rendered = template.and_then(|template| template.render(variables));
    rendered.with_context(|| format!("the template's file {path} can't be rendered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_depends_on_a_release_a_repository_or_a_checkout_and_links_to_its_guides() {
        let folder = "/home/u/a \"quoted\" one";
        let url = "https://git.example.com/sqs-once";
        let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
        let commit = format!("{url}#0123abc");
        let page = "<https://docs.rs/sqs-once/latest/sqs_once/guide/index.html>";
        let (of_url, of_folder) = (format!("<{url}>"), "/docs/README.md>");
        for (source, kind, expected, guides) in [
            (None, "version", version.to_owned(), page),
            (Some(url), "git", url.to_owned(), &of_url),
            (Some(&commit), "git", url.to_owned(), &of_url),
            (Some(&commit), "rev", "0123abc".to_owned(), &of_url),
            (
                Some(folder),
                "path",
                format!("{folder}/crates/PACKAGE"),
                of_folder,
            ),
        ] {
            let choices = Choices {
                fifo: false,
                source: "sqs".to_owned(),
                effect: "postgres".to_owned(),
                iac: "sam".to_owned(),
                sqs_once: source.map(str::to_owned),
            };
            let files = render("payments", &choices).unwrap();
            let manifest = files.iter().find(|file| file.path == "Cargo.toml").unwrap();
            let manifest: toml::Table = manifest.content.parse().unwrap();
            for (table, package) in [
                ("dependencies", "sqs-once"),
                ("dependencies", "sqs-once-postgres"),
                ("dev-dependencies", "sqs-once"),
            ] {
                let depended = &manifest[table][package][kind];
                let expected = expected.replace("PACKAGE", package);
                assert_eq!(depended.as_str(), Some(&*expected), "{table} {package}");
            }
            let readme = files.iter().find(|file| file.path == "README.md").unwrap();
            assert!(readme.content.contains(guides), "{}", readme.content);
        }
    }
}
