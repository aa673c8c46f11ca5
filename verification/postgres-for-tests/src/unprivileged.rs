//! PostgreSQL refuses to run as root. If the tests run as root, the server needs a user namespace or another user.

use crate::error::file;
use crate::run::{output, run};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// A user namespace without any mapping. The kernel checks file access as for root, so the server can enter directories
/// that other users cannot. The server sees itself, and the owner of its data, as the user `nobody`.
const NAMESPACE: &[&str] = &["unshare", "--user"];

/// A different user, if namespaces are forbidden (as in most containers).
const NOBODY: &[&str] = &[
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

/// The start of a command line that runs PostgreSQL's programs; empty if they can run directly.
#[derive(Clone, Copy)]
pub(crate) struct Unprivileged(&'static [&'static str]);

impl Unprivileged {
    /// Finds a way to run `binary`. `own` is a directory that this process has created.
    pub(crate) fn find(own: &Path, binary: &Path) -> Result<Self> {
        let root = fs::metadata(own).with_context(file(own))?.uid() == 0;
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
            .with_context(|| {
                format!(
                    "PostgreSQL does not run as root, and there is no way to another user: neither `unshare --user` \
                     nor `setpriv --reuid` can start {}. Run the tests as an ordinary user, or where every user may \
                     enter the project's directory",
                    binary.display()
                )
            })
    }

    /// A command that runs `binary`, without arguments.
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

    /// Gives a file, or a directory with its contents, to the server's user.
    pub(crate) fn own(self, path: &Path) -> Result<()> {
        if self.0 == NOBODY {
            run(Command::new("chown").args(["-R", "65534:65534"]).arg(path))?;
        }
        Ok(())
    }
}
