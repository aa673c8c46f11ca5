//! Runs the command line as a user does.

#![allow(clippy::unwrap_used, reason = "a test")]

#[cfg(feature = "aws")]
mod audit;
#[cfg(all(unix, feature = "aws"))]
mod blocks;
#[cfg(all(unix, feature = "aws"))]
mod breaker;
#[cfg(all(unix, feature = "aws"))]
mod credentials;
#[cfg(feature = "postgres")]
mod delete_expired;
mod deployments;
mod dev;
#[cfg(all(unix, feature = "aws"))]
mod dlq;
mod doctor;
mod invoke;
#[cfg(all(unix, feature = "aws"))]
mod key;
#[cfg(target_os = "linux")]
mod listeners;
mod new;
mod project;
mod shell;
#[cfg(all(unix, feature = "aws"))]
mod support;
mod wrong;
