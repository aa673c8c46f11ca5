//! Writes the project's folder with all of its files, or not at all.

use super::template::File;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The project can't be written. No part of it is left.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("{path} already exists and is not an empty folder", path = .0.display())]
    Taken(PathBuf),
    #[error("{path} can't be written", path = path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Writes the files into a temporary folder in the same parent, and renames it at the end.
pub(super) fn project(parent: &Path, name: &str, files: &[File]) -> Result<(), WriteError> {
    let folder = parent.join(name);
    let io = |source| WriteError::Io {
        path: folder.clone(),
        source,
    };
    if is_taken(&folder).map_err(io)? {
        return Err(WriteError::Taken(folder));
    }
    let beside = tempfile::Builder::new()
        .prefix(&format!(".{name}-"))
        .tempdir_in(parent)
        .map_err(io)?;
    // The temporary folder has restricted permissions. A folder inside it gets the usual ones.
    let draft = beside.path().join(name);
    for file in files {
        let path = draft.join(&file.path);
        let inner = path.parent().unwrap_or(&draft);
        fs::create_dir_all(inner).map_err(io)?;
        fs::write(&path, &file.content).map_err(io)?;
    }
    match fs::remove_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io(error)),
        _ => fs::rename(&draft, &folder).map_err(io),
    }
}

fn is_taken(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(folder.is_symlink()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(true),
        Err(error) => Err(error),
    }
}
