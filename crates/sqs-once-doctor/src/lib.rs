//! Checks the deployment of a Lambda function that consumes SQS for settings that lose or duplicate messages.
//!
//! A [`Source`] is a SAM or CloudFormation template, or a plan in the JSON of `terraform show -json`. [`RULES`] lists
//! the checks. Findings with exactly one remedy can be fixed in place; comments in the template are kept.
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

mod consumers;
mod error;
mod field;
mod iam;
mod limits;
mod manifest;
mod model;
mod remedy;
mod rules;
mod sarif;
mod source;
mod template;
mod terraform;
mod variables;

pub use error::{ReadError, WriteError};
pub use field::{Field, Place};
pub use limits::{LIMITS, Limit};
pub use manifest::{Aborting, Manifest};
pub use model::{
    Admitted, Alarm, Bus, Deployment, Form, Format, Function, Key, Mapping, Metric, Permissions,
    Pipe, Pollers, Queue, Reference, Scope, Sender, Site, Statement, Subscriber, Table, Target,
    Unread,
};
pub use rules::{RULES, Rule, Severity};
pub use sarif::sarif;
pub use source::{Finding, Fixes, Source};
pub use terraform::evaluate_terraform;
