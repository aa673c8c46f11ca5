//! PostgreSQL refuses to run as root; where the tests run as root, something else must start it.

use crate::error::{Error, file};
use crate::run::{output, run};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// A user namespace without any mapping. For the kernel's checks of files the server stays root, so it may be where
/// other users may not enter; it sees itself as nobody, and so does it see the owner of its data.
const NAMESPACE: &[&str] = &["unshare", "--user"];

/// Where namespaces are forbidden (as they are in most containers): really another user.
const NOBODY: &[&str] = &[
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

/// The start of a command line that runs PostgreSQL's programs, or nothing where they can run as they are.
#[derive(Clone, Copy)]
pub(crate) struct Unprivileged(&'static [&'static str]);

impl Unprivileged {
    /// What it takes here to run `binary`. `own` is a directory that this process has made.
    pub(crate) fn find(own: &Path, binary: &Path) -> Result<Self, Error> {
        let root = fs::metadata(own).map_err(file(own))?.uid() == 0;
        if !root {
            return Ok(Self(&[]));
        }
        [NAMESPACE, NOBODY]
            .into_iter()
            .map(Self)
            .find(|way| {
                let probe = output(way.command(binary).arg("--version"));
                probe.is_ok_and(|probe| probe.status.success())
            })
            .ok_or_else(|| Error::Root {
                binary: binary.to_owned(),
            })
    }

    /// Runs `binary`, to be completed with its arguments.
    pub(crate) fn command(self, binary: &Path) -> Command {
        match self.0 {
            [] => Command::new(binary),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary);
                command
            }
        }
    }

    /// Hands a file, or a directory with all in it, to whom the server runs as.
    pub(crate) fn own(self, path: &Path) -> Result<(), Error> {
        if self.0 == NOBODY {
            run(Command::new("chown").args(["-R", "65534:65534"]).arg(path))?;
        }
        Ok(())
    }
}
