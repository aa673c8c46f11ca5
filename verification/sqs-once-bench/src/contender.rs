//! The contenders. Cargo builds the Rust ones; the others are installed from their registries.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// One implementation of the [`contract`](crate::contract).
#[derive(Clone, Debug)]
pub struct Contender {
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// Its name in reports.
    pub title: &'static str,
    /// How many records, or claims of 25 keys, the contender keeps in flight, if it can choose.
    pub concurrency: usize,
    /// Whether it sends one request per key, if it can choose.
    pub single_requests: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A binary of this package.
    Rust(&'static str),
    Python,
    TypeScript,
}

/// The command that starts a contender.
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<PathBuf>,
}

/// The name of sqs-once, with which all others are compared.
pub const OURS: &str = "ours";
/// The name of sqs-once with one request per key.
pub const OURS_SINGLE: &str = "ours-single";
/// The name of the limit.
pub const LIMIT: &str = "bare";
/// The name of the prototype.
pub const PROTOTYPE: &str = "prototype";
/// The name of the handwritten contender with 10 records at a time.
pub const BY_HAND_10: &str = "by-hand-10";
/// The name of the handwritten contender with 50 records at a time.
pub const BY_HAND_50: &str = "by-hand-50";

impl Contender {
    /// Every contender, slow ones last.
    pub fn all() -> Vec<Self> {
        let one = Self::new;
        let bare = Kind::Rust("contender-bare");
        let by_hand = Kind::Rust("contender-by-hand");
        vec![
            one(LIMIT, "limit: bare HTTP client", bare, 4),
            one(
                PROTOTYPE,
                "prototype: batched, SDK",
                Kind::Rust("contender-prototype"),
                4,
            ),
            Self::ours(),
            Self {
                name: OURS_SINGLE,
                title: "sqs-once, single requests",
                single_requests: true,
                ..Self::ours()
            },
            one(BY_HAND_50, "Rust by hand, 50 at a time", by_hand, 50),
            one(BY_HAND_10, "Rust by hand, 10 at a time", by_hand, 10),
            one(
                "typescript",
                "Powertools TypeScript, parallel",
                Kind::TypeScript,
                1,
            ),
            one("python-6", "Powertools Python, 6 threads", Kind::Python, 6),
            one("python-1", "Powertools Python, sequential", Kind::Python, 1),
        ]
    }

    fn new(name: &'static str, title: &'static str, kind: Kind, concurrency: usize) -> Self {
        Self {
            name,
            title,
            concurrency,
            single_requests: false,
            kind,
        }
    }

    /// sqs-once with its defaults.
    pub fn ours() -> Self {
        let kind = Kind::Rust("contender-ours");
        Self::new(OURS, "sqs-once", kind, 1)
    }

    /// The name of its own table.
    pub fn table(&self) -> String {
        format!("bench-{}", self.name)
    }

    /// How long it runs before the measurement: long enough for a just-in-time compiler.
    pub fn warm_up(&self) -> Duration {
        match self.kind {
            Kind::Rust(_) => Duration::from_millis(500),
            Kind::Python | Kind::TypeScript => Duration::from_secs(3),
        }
    }

    /// Installs what the contender needs, unless it is already installed, and returns its command. [Build](build) the
    /// Rust contenders first.
    pub fn prepare(&self) -> Result<Program> {
        match self.kind {
            Kind::Rust(binary) => Ok(Program {
                path: binaries().join(binary),
                args: Vec::new(),
            }),
            Kind::Python => python(),
            Kind::TypeScript => type_script(),
        }
    }
}

/// Builds the Rust contenders with the profile of this program. Cargo by itself builds only the program that it runs.
pub fn build() -> Result<()> {
    let mut cargo = cargo();
    cargo.args([
        "build",
        "--quiet",
        "--bins",
        "--package",
        env!("CARGO_PKG_NAME"),
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo
        .arg("--manifest-path")
        .arg(package().join("Cargo.toml"));
    run(&mut cargo).map(drop)
}

/// The Cargo that runs this program. It removes this package's variables: ring's build script reads them, so Cargo
/// would rebuild ring and everything that depends on it.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_MANIFEST_") || text.starts_with("CARGO_PKG_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

fn python() -> Result<Program> {
    let peers = package().join("peers/python");
    let venv = workspace()?.join("python");
    let python = venv.join("bin/python");
    installed(&peers.join("requirements.txt"), &venv, || {
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&venv))?;
        let mut pip = Command::new(&python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--requirement",
        ]);
        run(pip.arg(peers.join("requirements.txt"))).map(drop)
    })?;
    Ok(Program {
        path: python,
        args: vec![peers.join("function.py")],
    })
}

fn type_script() -> Result<Program> {
    let peers = package().join("peers/typescript");
    let modules = workspace()?.join("typescript");
    let bundle = modules.join("function.js");
    create_dir(&modules)?;
    for file in ["package.json", "package-lock.json", "function.ts"] {
        copy(&peers.join(file), &modules.join(file))?;
    }
    installed(&peers.join("package-lock.json"), &modules, || {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        run(npm.current_dir(&modules)).map(drop)
    })?;
    let mut esbuild = Command::new(modules.join("node_modules/.bin/esbuild"));
    esbuild.args([
        "function.ts",
        "--bundle",
        "--minify",
        "--platform=node",
        "--target=node20",
    ]);
    esbuild.args(["--log-level=warning", "--outfile=function.js"]);
    run(esbuild.current_dir(&modules))?;
    Ok(Program {
        path: "node".into(),
        args: vec![bundle],
    })
}

/// Installs the packages in `pins`, unless the same pins are already installed.
fn installed(pins: &Path, to: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = to.join(".installed");
    let read = |path: &Path| fs::read(path).ok();
    if read(pins).is_some() && read(pins) == read(&stamp) {
        return Ok(());
    }
    install()?;
    copy(pins, &stamp)
}

pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output();
    let output = output.with_context(|| format!("`{command:?}` can't be run"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_success = output.status.success();
    ensure!(is_success, "`{command:?}` failed:\n{}", stderr.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("{path:?} can't be written"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to).map(drop);
    copied.with_context(|| format!("{to:?} can't be written"))
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of the repository.
pub fn repository() -> PathBuf {
    package().join("../..")
}

/// The directory with the binaries of this program and its contenders.
fn binaries() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    let mut folders = own.ancestors().skip(1);
    // Tests are in a subdirectory of the binaries' directory.
    let folder = folders.find(|folder| !folder.ends_with("deps"));
    folder.map_or_else(PathBuf::new, Path::to_owned)
}

/// The directory for the contenders' files, in Cargo's target directory.
pub fn workspace() -> Result<PathBuf> {
    let workspace = binaries().with_file_name("bench");
    create_dir(&workspace)?;
    Ok(workspace)
}
