//! What a handler returns to start an execution.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, ser};
use serde_json::value::RawValue;

use crate::handler::{Done, HandlerError, IntoOutcome, RecordParts};
use crate::key::HexDigest;
use crate::record::RESTARTS;
use crate::report::Code;

use super::ExecutionError;
#[cfg(feature = "durable-functions")]
use super::durable_function::DurableFunction;
#[cfg(feature = "step-functions")]
use super::state_machine::StateMachine;

/// The start of an execution: what a handler returns, so that the execution starts once for each key.
///
/// [`StateMachine::start`](crate::executions::StateMachine::start) and
/// [`DurableFunction::start`](crate::executions::DurableFunction::start) create it. The consumer starts the execution under
/// a name that is made from the namespace and the key, and completes the key. If the process dies between the two, the
/// next attempt finds the execution by its name:
///
/// - It runs, or has succeeded: the message is processed.
/// - It has ended otherwise: the message is terminal, with the reason *the execution NAME ended FAILED*.
/// - It has another input: the handler's [`payload_mismatch`](crate::Handler::payload_mismatch) decides. The default makes
///   the message terminal.
///
/// Without an answer, and after any other refusal, the message fails and is retried.
#[must_use = "an execution starts when the handler returns it"]
pub struct StartExecution {
    target: Target,
    input: serde_json::Result<String>,
}

/// The most levels of an input.
const MAX_DEPTH: usize = 128;

enum Target {
    #[cfg(feature = "step-functions")]
    StateMachine(StateMachine),
    #[cfg(feature = "durable-functions")]
    DurableFunction(DurableFunction),
}

/// An execution to be started.
pub(super) struct Request {
    pub(super) name: String,
    /// JSON with sorted names.
    pub(super) input: String,
    /// Whether an earlier attempt may have started it.
    #[cfg(feature = "durable-functions")]
    pub(super) is_repeated: bool,
}

/// The state of an execution that exists.
pub(super) enum Found {
    /// It runs, or has succeeded, with this input.
    Same,
    OtherInput,
    /// It ended in another way: AWS's word for it.
    Ended(String),
}

impl fmt::Debug for StartExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartExecution").finish_non_exhaustive()
    }
}

#[cfg(feature = "step-functions")]
impl StartExecution {
    pub(super) fn of_state_machine(machine: &StateMachine, input: &impl Serialize) -> Self {
        Self {
            target: Target::StateMachine(machine.clone()),
            input: sorted_json(input),
        }
    }
}

#[cfg(feature = "durable-functions")]
impl StartExecution {
    pub(super) fn of_durable_function(function: &DurableFunction, input: &impl Serialize) -> Self {
        Self {
            target: Target::DurableFunction(function.clone()),
            input: sorted_json(input),
        }
    }
}

impl StartExecution {
    async fn start<S: Sync>(self, parts: &RecordParts<S>) -> Result<Done, HandlerError> {
        let input = self.input.map_err(ExecutionError::Input);
        let request = Request {
            name: name(parts, self.target.unqualified()),
            input: input.map_err(HandlerError::terminal)?,
            #[cfg(feature = "durable-functions")]
            is_repeated: parts.is_repeated,
        };
        let found = match self.target {
            #[cfg(feature = "step-functions")]
            Target::StateMachine(machine) => machine.request(&request).await,
            #[cfg(feature = "durable-functions")]
            Target::DurableFunction(function) => function.request(&request).await,
        };
        let name = request.name;
        match found {
            Ok(Found::Same) => Ok(Done::default()),
            Ok(Found::Ended(status)) => Err(HandlerError::terminal(ExecutionError::Ended {
                name,
                status,
            })),
            Ok(Found::OtherInput) => {
                let reason = format!("payload mismatch: the execution {name} has another input");
                let reason = Code::PayloadMismatch.because(reason);
                match parts.mismatch.clone() {
                    Some(disposition) => Err(HandlerError::new(disposition, reason)),
                    None => {
                        tracing::warn!("{reason}");
                        Ok(Done::default())
                    }
                }
            }
            Err(
                error @ (ExecutionError::Refused { is_final: true, .. }
                | ExecutionError::Express { .. }),
            ) => Err(HandlerError::terminal(error)),
            Err(error) => Err(error.into()),
        }
    }
}

impl IntoOutcome for StartExecution {
    const STARTS: bool = true;

    fn into_outcome(self) -> Result<Done, HandlerError> {
        Err(HandlerError::terminal(ExecutionError::NotReturned))
    }

    fn end<S: Sync>(
        self,
        parts: &RecordParts<S>,
    ) -> impl Future<Output = Result<Done, HandlerError>> + Send {
        self.start(parts)
    }
}

impl Target {
    fn unqualified(&self) -> &str {
        match self {
            #[cfg(feature = "step-functions")]
            Self::StateMachine(machine) => machine.unqualified(),
            #[cfg(feature = "durable-functions")]
            Self::DurableFunction(function) => function.unqualified(),
        }
    }
}

/// Returns the name of an execution: the same for each attempt at a message's event, whatever version starts it.
fn name<S>(parts: &RecordParts<S>, target: &str) -> String {
    let restarts = parts.message().attribute(RESTARTS).unwrap_or("0");
    let text = format!("{}\n{target}\n{restarts}", parts.token());
    HexDigest::of(text.as_bytes()).as_str()[..32].to_owned()
}

/// Serializes a value with sorted names, so that each attempt has the same input.
fn sorted_json(value: &impl Serialize) -> serde_json::Result<String> {
    sorted(&serde_json::to_string(value)?, MAX_DEPTH)
}

/// Sorts names without a change of numbers, which may have more digits than a float. The value has at most `depth` levels:
/// a deeper one would need more stack than a thread has.
fn sorted(json: &str, depth: usize) -> serde_json::Result<String> {
    let json = json.trim();
    let inner = |value: &RawValue| sorted(value.get(), depth - 1);
    Ok(match json.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => {
            let error = format!("it has more than {MAX_DEPTH} levels");
            return Err(ser::Error::custom(error));
        }
        Some(b'{') => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(json)?;
            let fields = fields.iter().map(|(name, value)| {
                let name = serde_json::to_string(name)?;
                Ok(format!("{name}:{}", inner(value)?))
            });
            format!("{{{}}}", joined(fields)?)
        }
        Some(b'[') => {
            let values: Vec<&RawValue> = serde_json::from_str(json)?;
            let values = values.iter().map(|value| inner(value));
            format!("[{}]", joined(values)?)
        }
        Some(b'"') => serde_json::to_string(&serde_json::from_str::<String>(json)?)?,
        _ => json.to_owned(),
    })
}

fn joined(parts: impl Iterator<Item = serde_json::Result<String>>) -> serde_json::Result<String> {
    Ok(parts.collect::<serde_json::Result<Vec<_>>>()?.join(","))
}

impl Request {
    /// Compares with the input of an execution that exists. An answer without an input counts as the same.
    pub(super) fn compare(&self, input: Option<&str>) -> Found {
        match input.map(|input| sorted(input, MAX_DEPTH)) {
            Some(Ok(input)) if input == self.input => Found::Same,
            Some(_) => Found::OtherInput,
            None => Found::Same,
        }
    }

    pub(super) fn unsettled(&self, service: &'static str) -> ExecutionError {
        let name = self.name.clone();
        ExecutionError::Unsettled { service, name }
    }
}
