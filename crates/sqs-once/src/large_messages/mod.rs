//! Large messages: bodies that producers have put elsewhere, because SQS carries 1 MiB.

#[cfg(feature = "s3")]
mod pointer;
#[cfg(feature = "s3")]
mod s3;
mod settings;
#[cfg(feature = "s3")]
mod source;

#[cfg(all(feature = "s3", feature = "sqs"))]
pub(crate) use pointer::{MAC, Pointer};
#[cfg(feature = "s3")]
pub use s3::LargeMessages;
pub(crate) use settings::LargeMessageSettings;
