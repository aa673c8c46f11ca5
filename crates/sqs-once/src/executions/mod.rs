//! Executions that start once for each key: of Step Functions, and of durable Lambda functions.

#[cfg(feature = "durable-functions")]
mod durable_function;
mod error;
mod start;
#[cfg(feature = "step-functions")]
mod state_machine;

#[cfg(feature = "durable-functions")]
pub use durable_function::DurableFunction;
pub use error::ExecutionError;
pub use start::StartExecution;
#[cfg(feature = "step-functions")]
pub use state_machine::StateMachine;
