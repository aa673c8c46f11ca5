//! The user's cargo workspace: finds the function's binary and builds it.

use crate::print;
use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, Message, Metadata, MetadataCommand, Package};
use sqs_once_doctor::Source;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A binary that depends on one of these is a Lambda function.
const LAMBDA_CRATES: [&str; 2] = ["sqs-once", "lambda_runtime"];

pub(crate) struct Workspace {
    metadata: Metadata,
}

/// A binary of the workspace.
pub(crate) struct Binary {
    pub(crate) name: String,
    package: String,
    is_function: bool,
}

impl Workspace {
    /// Finds the workspace of the current folder.
    pub(crate) fn find() -> Result<Self> {
        let metadata = MetadataCommand::new().no_deps().exec();
        let metadata = metadata.context("this folder is in no cargo workspace that cargo can read: go to the folder of your Cargo.toml, or create a \
             project with `new`")?;
        Ok(Self { metadata })
    }

    pub(crate) fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

    /// The file of the local DynamoDB.
    pub(crate) fn database(&self) -> PathBuf {
        self.own_folder().join("dynamodb.sqlite")
    }

    /// The default folder of the local S3.
    pub(crate) fn objects(&self) -> PathBuf {
        self.own_folder().join("s3")
    }

    /// The folder with the binaries that `dev` runs.
    pub(crate) fn running(&self) -> PathBuf {
        self.own_folder().join("running")
    }

    fn own_folder(&self) -> PathBuf {
        let target = self.metadata.target_directory.as_std_path();
        target.join("sqs-once")
    }

    /// The given template, or else the one of the current folder, or else that of the workspace.
    pub(crate) fn template(&self, given: Option<&Path>) -> Option<PathBuf> {
        let usual = || {
            [Path::new(""), self.root()]
                .into_iter()
                .find_map(Source::find)
        };
        given.map(Path::to_owned).or_else(usual)
    }

    /// The files that determine what is built and how.
    pub(crate) fn manifests(&self) -> Vec<PathBuf> {
        let packages = self.metadata.workspace_packages().into_iter();
        let own = packages.map(|package| package.manifest_path.clone().into_std_path_buf());
        let shared = [".cargo/config.toml", "Cargo.toml", "rust-toolchain.toml"];
        own.chain(shared.map(|name| self.root().join(name)))
            .collect()
    }

    /// Selects the function's binary: the one called `wanted`, or else the one that the template names, or else the
    /// only function.
    pub(crate) fn function(
        &self,
        wanted: Option<&str>,
        in_template: Option<&str>,
    ) -> Result<Binary> {
        let mut binaries = self.binaries();
        let named = |name: &str| binaries.iter().position(|binary| binary.name == name);
        if let Some(name) = wanted {
            return match named(name) {
                Some(index) => Ok(binaries.swap_remove(index)),
                None => bail!(
                    "the workspace has no binary called `{name}`; it has: {}",
                    names(&binaries)
                ),
            };
        }
        if let Some(index) = in_template.and_then(named) {
            return Ok(binaries.swap_remove(index));
        }
        binaries.retain(|binary| binary.is_function);
        match binaries.len() {
            0 => bail!(
                "the workspace has no Lambda function: no binary that depends on sqs-once or lambda_runtime"
            ),
            1 => Ok(binaries.swap_remove(0)),
            _ => bail!(
                "the workspace has several Lambda functions: pick one with --function ({})",
                names(&binaries)
            ),
        }
    }

    fn binaries(&self) -> Vec<Binary> {
        let mut binaries = Vec::new();
        for package in self.metadata.workspace_packages() {
            let is_function = is_lambda(package);
            let targets = package.targets.iter().filter(|target| target.is_bin());
            binaries.extend(targets.map(|target| Binary {
                name: target.name.clone(),
                package: package.name.to_string(),
                is_function,
            }));
        }
        binaries
    }

    /// The packages whose features the build unites.
    ///
    /// A debug build unites all packages, as `cargo test --workspace` does, so that both share one build of the AWS
    /// SDK. A release build is what is deployed, so it has only the features of its own package. If another package has
    /// a binary of the same name, `--workspace` would build both and overwrite one with the other.
    fn selection<'a>(&self, binary: &'a Binary, release: bool) -> Vec<&'a str> {
        let all = self.binaries().into_iter();
        let namesakes = all.filter(|other| other.name == binary.name);
        match release || namesakes.count() > 1 {
            true => vec!["--package", &binary.package],
            false => vec!["--workspace"],
        }
    }

    /// Builds `binary` and returns its path. Shows cargo's progress. With `quiet`, shows cargo's output only on
    /// failure.
    pub(crate) fn build(&self, binary: &Binary, release: bool, quiet: bool) -> Result<PathBuf> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        // `cargo run` sets variables about this program's own package. Build scripts that read them would see a change,
        // and cargo would rebuild everything that depends on them.
        const OF_THIS_PROGRAM: [&str; 4] = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
        ];
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if OF_THIS_PROGRAM.iter().any(|start| text.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        let output = command
            .args(["build", "--message-format=json-render-diagnostics"])
            .args(self.selection(binary, release))
            .args(["--bin", &binary.name])
            .args(release.then_some("--release"))
            .args(quiet.then_some("--quiet"))
            .current_dir(self.root())
            .stdin(Stdio::null())
            .stderr(match quiet {
                true => Stdio::piped(),
                false => Stdio::inherit(),
            })
            .output()
            .context("cargo can't be run")?;
        if !output.status.success() {
            print::to_stderr(&output.stderr);
            bail!(
                "the function `{}` does not build: cargo ended with {}",
                binary.name,
                output.status
            );
        }
        let executable = |message| match message {
            Ok(Message::CompilerArtifact(artifact)) if artifact.target.name == binary.name => {
                artifact.executable
            }
            _ => None,
        };
        let messages = Message::parse_stream(output.stdout.as_slice());
        let built = messages.filter_map(executable).last().map(PathBuf::from);
        built.with_context(|| format!("cargo built `{}` but did not say where", binary.name))
    }
}

fn is_lambda(package: &Package) -> bool {
    let mut dependencies = package.dependencies.iter();
    dependencies
        .any(|it| it.kind == DependencyKind::Normal && LAMBDA_CRATES.contains(&it.name.as_str()))
}

fn names(binaries: &[Binary]) -> String {
    let names: Vec<&str> = binaries.iter().map(|binary| binary.name.as_str()).collect();
    names.join(", ")
}
