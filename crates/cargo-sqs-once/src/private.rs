//! Files that contain bodies or keys.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file for appending. Creates it with mode 0600 if it does not exist. An existing file keeps its mode.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}
