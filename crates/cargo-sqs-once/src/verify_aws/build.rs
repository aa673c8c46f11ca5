//! The function's zip: the transactional project of `cargo sqs-once new`, built by cargo-lambda.

use super::Architecture;
use crate::new;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::sync::oneshot;

const NAME: &str = "verify-orders";

/// Builds the function on a separate thread, so that Ctrl-C need not wait for it. Cargo receives the signal itself.
pub(super) async fn function(
    architecture: Architecture,
    sqs_once: Option<PathBuf>,
) -> Result<Vec<u8>> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        // The receiver is gone after Ctrl-C.
        let _ = tell.send(build(architecture, sqs_once.as_deref()));
    });
    told.await.context("the build ended without a result")?
}

fn build(architecture: Architecture, sqs_once: Option<&Path>) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("the function's project needs a temporary folder")?;
    new::transactional(folder.path(), NAME, sqs_once)?;
    let flag = match architecture {
        Architecture::Arm64 => "--arm64",
        Architecture::X86_64 => "--x86-64",
    };
    let project = folder.path().join(NAME);
    let built = Command::new("cargo")
        .args([
            "lambda",
            "build",
            "--release",
            "--output-format",
            "zip",
            flag,
        ])
        .current_dir(&project)
        // A variable for the user's own projects would move the zip.
        .env("CARGO_TARGET_DIR", project.join("target"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let built = built.context("cargo can't be run")?;
    ensure!(
        built.success(),
        "`cargo lambda build` failed: see its output above. It needs cargo-lambda \
         (`pip install cargo-lambda`); --zip takes a function that is built already"
    );
    read(
        &project
            .join("target/lambda")
            .join(NAME)
            .join("bootstrap.zip"),
    )
}

/// Reads a zip that was built already.
pub(super) fn read(zip: &Path) -> Result<Vec<u8>> {
    const MAGIC: &[u8] = b"PK\x03\x04";
    let shown = zip.display();
    let bytes = std::fs::read(zip).with_context(|| format!("{shown} can't be read"))?;
    if !bytes.starts_with(MAGIC) {
        bail!(
            "{shown} is not a zip: expected one with the file `bootstrap`, as `cargo lambda build --output-format zip` makes it"
        );
    }
    Ok(bytes)
}
