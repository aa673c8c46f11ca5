//! Panic settings in `Cargo.toml`.

use crate::error::{ReadError, read};
use crate::field::{Place, position};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml_edit::{Document, Item, TableLike};

/// The build profiles in a workspace's manifest.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The file.
    pub path: PathBuf,
    /// Profiles whose setting ends the process when a handler panics.
    pub aborting: Vec<Aborting>,
}

/// A profile with `panic = "abort"`.
#[derive(Debug, Clone)]
pub struct Aborting {
    /// The profile.
    pub profile: String,
    /// The place of the setting.
    pub place: Place,
    span: Range<usize>,
}

impl Manifest {
    /// Reads the manifest whose profiles Cargo applies to the code in `folder`: the workspace's.
    ///
    /// # Errors
    /// [`ReadError`] if the manifest exists but cannot be read.
    pub fn find(folder: &Path) -> Result<Option<Self>, ReadError> {
        let here = std::env::current_dir().unwrap_or_default();
        let folder = match folder.is_absolute() {
            true => folder.to_owned(),
            // Canonicalize, so that the search also visits the parents of the current directory. On Windows, the standard
            // library returns another form of path than `current_dir`. A folder that does not exist may be an S3 bucket.
            false => match dunce::canonicalize(here.join(folder)) {
                Ok(folder) => folder,
                Err(_) => return Ok(None),
            },
        };
        let mut nearest = None;
        for folder in folder.ancestors() {
            let path = folder.join("Cargo.toml");
            if !path.is_file() {
                continue;
            }
            // Show the path relative to the current directory.
            let path = path.strip_prefix(&here).map(Path::to_owned).unwrap_or(path);
            let text = read(&path)?;
            let document = parse(&path, &text)?;
            let is_workspace = document.contains_key("workspace");
            let manifest = Self::of(path, &text, &document);
            if is_workspace {
                return Ok(Some(manifest));
            }
            nearest.get_or_insert(manifest);
        }
        Ok(nearest)
    }

    fn of(path: PathBuf, text: &str, document: &Document<&str>) -> Self {
        let profiles = document.get("profile").and_then(Item::as_table_like);
        let aborting = profiles
            .into_iter()
            .flat_map(|profiles| profiles.iter())
            .filter_map(|(name, profile)| aborting(text, name, profile.as_table_like()?))
            .collect();
        Self { path, aborting }
    }

    /// The manifest's text with every `"abort"` replaced by `"unwind"`. `None` if this changes nothing.
    pub(crate) fn fixed(path: &Path, text: &str) -> Option<String> {
        let document = parse(path, text).ok()?;
        let mut manifest = Self::of(path.to_owned(), text, &document);
        manifest.aborting.sort_by_key(|it| it.span.start);
        let mut fixed = text.to_owned();
        for aborting in manifest.aborting.iter().rev() {
            fixed.replace_range(aborting.span.clone(), "\"unwind\"");
        }
        (fixed != text).then_some(fixed)
    }
}

fn parse<'a>(path: &Path, text: &'a str) -> Result<Document<&'a str>, ReadError> {
    Document::parse(text).map_err(|source| ReadError::Toml {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

fn aborting(text: &str, profile: &str, table: &dyn TableLike) -> Option<Aborting> {
    let panic = table.get("panic")?;
    let span = panic.span().filter(|_| panic.as_str() == Some("abort"))?;
    Some(Aborting {
        profile: profile.to_owned(),
        place: Place {
            position: Some(position(text, span.start)),
            ..Place::of(format!("profile.{profile}"))
        },
        span,
    })
}
