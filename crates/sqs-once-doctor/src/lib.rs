//! Finds what loses or doubles messages in the deployment of a Lambda function that consumes SQS.
//!
//! A [`Source`] is a SAM or CloudFormation template, or what `terraform show -json` says of a plan. It is examined by
//! [`RULES`]; what has only one remedy is fixed, in place, with its comments.
//!
//! ```
//! use sqs_once_doctor::Source;
//! use std::path::Path;
//!
//! let template = "
//! Resources:
//!   Orders:
//!     Type: AWS::SQS::Queue
//!   Function:
//!     Type: AWS::Serverless::Function
//!     Properties:
//!       Timeout: 30
//!       Events:
//!         Orders:
//!           Type: SQS
//!           Properties: { Queue: !GetAtt Orders.Arn }
//! ";
//! let findings = Source::new(Path::new("template.yaml"), template).examine()?;
//! assert_eq!(findings[0].rule.id, "dead-letter-queue-missing");
//! # Ok::<(), sqs_once_doctor::ReadError>(())
//! ```

mod error;
mod field;
mod finding;
mod iam;
mod manifest;
mod model;
mod remedy;
mod rules;
mod sarif;
mod source;
mod template;
mod terraform;

pub use error::{ReadError, WriteError};
pub use field::{Field, Place};
pub use finding::{Finding, Severity};
pub use manifest::{Aborting, Manifest};
pub use model::{
    Alarm, Deployment, Format, Function, Mapping, Metric, Permissions, Queue, Scope, Sender, Site,
    Statement, Table, Target,
};
pub use rules::{RULES, Rule};
pub use sarif::sarif;
pub use source::{FixError, Fixes, Source};
