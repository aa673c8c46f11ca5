//! Writes the project's folder with all of its files, or not at all.

use super::template::File;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io;
use std::path::Path;

/// Writes the files into a temporary folder in the same parent, and renames it at the end.
pub(super) fn project(parent: &Path, name: &str, files: &[File]) -> Result<()> {
    let folder = parent.join(name);
    let unwritten = || format!("{} can't be written", folder.display());
    if is_taken(&folder).with_context(unwritten)? {
        bail!(
            "{} already exists and is not an empty folder",
            folder.display()
        );
    }
    let beside = tempfile::Builder::new()
        .prefix(&format!(".{name}-"))
        .tempdir_in(parent)
        .with_context(unwritten)?;
    // The temporary folder has restricted permissions. A folder inside it gets the usual ones.
    let draft = beside.path().join(name);
    for file in files {
        let path = draft.join(&file.path);
        let inner = path.parent().unwrap_or(&draft);
        fs::create_dir_all(inner).with_context(unwritten)?;
        fs::write(&path, &file.content).with_context(unwritten)?;
    }
    match fs::remove_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::rename(&draft, &folder),
    }
    .with_context(unwritten)
}

fn is_taken(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(folder.is_symlink()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(true),
        Err(error) => Err(error),
    }
}
