//! The report: what happened, as one file.

use super::error::DevError;
use sqs_once_local::Story;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file that the report is written to.
pub(crate) struct Report {
    path: PathBuf,
    file: File,
}

impl Report {
    /// Makes the file, so that a folder that is not there is found out before the run.
    pub(crate) fn create(path: &Path) -> Result<Self, DevError> {
        let file = File::create(path).map_err(|source| failed(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    pub(crate) fn write(mut self, story: &Story) -> Result<(), DevError> {
        let written = self.file.write_all(story.report().as_bytes());
        written.map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> DevError {
    DevError::Report {
        path: path.to_owned(),
        source,
    }
}
