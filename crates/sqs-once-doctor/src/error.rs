//! Errors of this crate.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A deployment that the doctor cannot read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{path} can't be read", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder has no deployment, or several.
    #[error("{path} is not one deployment: {advice}", path = .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What to do instead.
        advice: String,
    },
    /// The text is neither YAML nor JSON.
    #[error("the template is not valid YAML")]
    Yaml(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A mapping has a key twice.
    #[error("`{key}` is on line {first} and again on line {second}: remove one of the two")]
    DuplicateKey {
        /// The key.
        key: String,
        /// The line of the first.
        first: usize,
        /// The line of the second.
        second: usize,
    },
    /// The document is a configuration of the Serverless Framework.
    #[error(
        "the file is a configuration of the Serverless Framework: run `serverless package`, then \
         `cargo sqs-once doctor .serverless/cloudformation-template-update-stack.json`"
    )]
    Serverless,
    /// The document has no resources.
    #[error(
        "there are no `Resources`: is it a SAM or CloudFormation template, or a plan from `terraform show -json`?"
    )]
    NoResources,
    /// The document is nested deeper, or holds more values, than any valid template.
    #[error("the template is deeper or larger than CloudFormation accepts")]
    TooLarge,
    /// A file of a Terraform configuration is not valid.
    #[error("{path} is not valid HCL", path = .path.display())]
    Hcl {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A manifest is not valid TOML.
    #[error("{path} is not valid TOML", path = .path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<String, ReadError> {
    fs::read_to_string(path).map_err(|source| ReadError::Io {
        path: path.to_owned(),
        source,
    })
}

/// Fixes that the doctor cannot write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file cannot be replaced. It keeps its old content.
    #[error("{path} can't be written; it is unchanged", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
