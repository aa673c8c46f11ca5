//! Files that contain bodies or keys.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Opens a file for appending. Creates it with mode 0600 if it does not exist. An existing file keeps its mode.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    creating().append(true).open(path)
}

/// Writes a file, with the mode of [`append`].
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = creating().write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn creating() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}
