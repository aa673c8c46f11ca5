//! Writes the story of a run to one HTML file.

use super::error::DevError;
use crate::private;
use sqs_once_local::Story;
use std::io;
use std::path::{Path, PathBuf};

/// The file for the report.
pub(crate) struct Report {
    path: PathBuf,
}

impl Report {
    /// Checks before the run that the file is writable. Its content stays until a new report replaces it.
    pub(crate) fn create(path: &Path) -> Result<Self, DevError> {
        let opened = private::append(path);
        opened.map_err(|source| failed(path, source))?;
        let path = path.to_owned();
        Ok(Self { path })
    }

    pub(crate) fn write(&self, story: &Story) -> Result<(), DevError> {
        let written = std::fs::write(&self.path, story.report());
        written.map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> DevError {
    DevError::Report {
        path: path.to_owned(),
        source,
    }
}
