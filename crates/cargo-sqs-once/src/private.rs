//! Files that hold bodies or keys.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file to append to. One that this makes is for its owner alone (mode 0600); one that is there keeps its mode.
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
