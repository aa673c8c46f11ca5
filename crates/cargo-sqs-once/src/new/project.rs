//! A project's name, which becomes a cargo package and the prefix of AWS names, and its folder.

use super::template::File;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io;
use std::path::Path;

/// A queue's name has the lowest limit of all AWS names: 80 with `.fifo`. 60 leaves room for a stage.
const LONGEST: usize = 60;

/// Names that cargo or Windows refuses as a package, a binary or a folder. Also the name that cargo-lambda gives to every
/// binary, and the names of the project's dependencies.
const TAKEN: &str = "
    alloc aux aws-lambda-events bootstrap build com1 com2 com3 com4 com5 com6 com7 com8 com9 con core deps examples
    incremental lambda-runtime lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9 nul prn proc-macro serde serde-json sqs-once
    sqs-once-macros sqs-once-postgres std test thiserror tokio tokio-postgres tower-service tracing
";

/// Words that can't name a crate.
const KEYWORDS: &str = "
    abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl
    in let loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof
    unsafe unsized use virtual where while yield
";

pub(super) fn name(name: &str) -> Result<String, String> {
    let is_among = |words: &str| words.split_whitespace().any(|word| word == name);
    let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_usual);
    let starts_with_letter = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !starts_with_letter || !name.split('-').all(is_part) {
        return Err("expected lower-case letters and digits, with single hyphens between them and a letter first, such \
                    as `order-payments`: it names a package, a stack and queues"
            .to_owned());
    }
    if name.len() < 2 || name.len() > LONGEST {
        return Err(format!("expected 2 to {LONGEST} characters"));
    }
    if is_among(KEYWORDS) {
        return Err("it is a keyword of Rust; expected another name".to_owned());
    }
    if is_among(TAKEN) {
        let taken =
            "cargo or one of the project's dependencies uses this name; expected another one";
        return Err(taken.to_owned());
    }
    Ok(name.to_owned())
}

/// Writes the files into a temporary folder in the same parent, and renames it at the end.
pub(super) fn write(parent: &Path, name: &str, files: &[File]) -> Result<()> {
    let folder = parent.join(name);
    let unwritten = || format!("{} can't be written", folder.display());
    if is_taken(&folder).with_context(unwritten)? {
        bail!(
            "{} already exists and is not an empty folder",
            folder.display()
        );
    }
    let beside = tempfile::Builder::new()
        .prefix(&format!(".{name}-"))
        .tempdir_in(parent)
        .with_context(unwritten)?;
    // The temporary folder has restricted permissions. A folder inside it gets the usual ones.
    let draft = beside.path().join(name);
    for file in files {
        let path = draft.join(&file.path);
        let inner = path.parent().unwrap_or(&draft);
        fs::create_dir_all(inner).with_context(unwritten)?;
        fs::write(&path, &file.content).with_context(unwritten)?;
    }
    match fs::remove_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::rename(&draft, &folder),
    }
    .with_context(unwritten)
}

fn is_taken(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(folder.is_symlink()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(true),
        Err(error) => Err(error),
    }
}
