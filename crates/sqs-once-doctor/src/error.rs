//! What can go wrong, in the words the user reads.

use std::io;
use std::path::PathBuf;

/// A deployment that can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file can't be read.
    #[error("{path} can't be read", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not YAML, nor JSON.
    #[error("the template is not valid YAML")]
    Yaml(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It has no resources.
    #[error(
        "there are no `Resources`: is it a SAM or CloudFormation template, or a plan from `terraform show -json`?"
    )]
    NoResources,
    /// It is deeper, or has more values, than a template can have.
    #[error("the template is deeper or larger than CloudFormation would take")]
    TooLarge,
    /// A manifest is not TOML.
    #[error("{path} is not valid TOML", path = .path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Fixes that can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file can't be replaced; it is as it was.
    #[error("{path} can't be written; it is as it was", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A plan is computed: what it comes from has to change.
    #[error(
        "a Terraform plan can't be fixed: change the configuration that it was made of, as the findings say"
    )]
    Plan,
}
