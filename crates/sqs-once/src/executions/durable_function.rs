//! Durable Lambda functions.

use std::fmt;
use std::sync::Arc;

use aws_config::SdkConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::Builder;
use aws_sdk_lambda::config::retry::RetryPartition;
use aws_sdk_lambda::error::ProvideErrorMetadata;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::{ExecutionStatus, InvocationType};
use serde::Serialize;

use crate::aws::{self, LazyClient};
use crate::error::ConfigError;

use super::ExecutionError;
use super::start::{Found, Request, StartExecution};

const SERVICE: &str = "Lambda";

/// Both of the names that AWS gives to the refusal of a name with another input.
const EXISTS: [&str; 2] = [
    "DurableExecutionAlreadyStartedException",
    "DurableExecutionAlreadyExists",
];

/// A durable Lambda function. Create it once and keep it in the handler's [`State`](crate::State).
///
/// A name starts at most one execution for as long as Lambda keeps the execution, which the function's
/// `RetentionPeriodInDays` sets (1 to 90 days, 14 by default). After that the completion of the key prevents a second start,
/// for as long as the handler keeps it ([`retention`](crate::Handler::retention)).
///
/// The function's role needs `lambda:InvokeFunction` on the qualified function, `lambda:GetDurableExecution` and
/// `lambda:ListDurableExecutionsByFunction`.
///
/// ```no_run
/// use serde::{Deserialize, Serialize};
/// use sqs_once::executions::{DurableFunction, StartExecution};
/// use sqs_once::{HandlerError, State};
///
/// #[derive(Deserialize, Serialize)]
/// struct OrderPlaced { order_id: String }
///
/// /// Starts the fulfilment of an order, once.
/// #[sqs_once::handler(key = order.order_id, namespace = "fulfilment")]
/// async fn fulfil(
///     order: OrderPlaced,
///     State(fulfilment): State<DurableFunction>,
/// ) -> Result<StartExecution, HandlerError> {
///     Ok(fulfilment.start(&order))
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), sqs_once::Error> {
///     let fulfilment = DurableFunction::new("fulfilment:live")?;
///     sqs_once::run(fulfil::consumer(fulfilment)).await
/// }
/// ```
#[derive(Clone)]
pub struct DurableFunction {
    name: Arc<str>,
    client: LazyClient<Client>,
}

impl fmt::Debug for DurableFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DurableFunction").field(&self.name).finish()
    }
}

impl DurableFunction {
    /// Names a function and one of its versions or aliases: `fulfilment:live`, or an ARN that ends so.
    ///
    /// # Errors
    /// If the name has no version and no alias: Lambda starts durable executions only by a qualified name.
    pub fn new(name: impl Into<String>) -> Result<Self, ConfigError> {
        let name = name.into();
        let parts: Vec<_> = name.split(':').collect();
        let is_qualified = match parts[..] {
            // A part of an ARN, without a qualifier.
            ["function", _] => false,
            ["arn", _, "lambda", _, _, "function", function, qualifier]
            | [_, "function", function, qualifier]
            | [function, qualifier] => !function.is_empty() && !qualifier.is_empty(),
            _ => false,
        };
        match is_qualified {
            true => Ok(Self {
                name: name.into(),
                client: LazyClient::default(),
            }),
            false => Err(ConfigError::invalid(
                "DurableFunction::new",
                format!("has {name:?}, which names no version and no alias of a function"),
                "NAME:ALIAS, NAME:VERSION, or a function's ARN that ends so",
            )),
        }
    }

    /// Sets the client. Default: one that is created at the first start, from the environment.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.client = client.into();
        self
    }

    /// Starts an execution with this input, as JSON, when the handler returns the result.
    pub fn start(&self, input: &impl Serialize) -> StartExecution {
        StartExecution::of_durable_function(self, input)
    }

    /// The function's name without its version or alias, which is the same for a name and for an ARN.
    pub(super) fn unqualified(&self) -> &str {
        self.name.rsplit(':').nth(1).unwrap_or(&self.name)
    }

    /// The function's name or ARN without its version or alias.
    fn function(&self) -> &str {
        let end = self.name.rfind(':');
        end.map_or(&self.name, |end| &self.name[..end])
    }

    pub(super) async fn request(&self, request: &Request) -> Result<Found, ExecutionError> {
        let client = self.client.get(connect).await;
        let invoke = client.invoke().function_name(&*self.name);
        let invoke = invoke.invocation_type(InvocationType::Event);
        let invoke = invoke.durable_execution_name(&request.name);
        let invoke = invoke.payload(Blob::new(request.input.as_bytes()));
        let arn = match invoke.send().await {
            Ok(_) if !request.is_repeated => return Ok(Found::Same),
            // The answer does not tell whether it has ended.
            Ok(started) => started.durable_execution_arn,
            Err(error) if error.code().is_some_and(|code| EXISTS.contains(&code)) => None,
            Err(error) => {
                return Err(ExecutionError::refused(
                    SERVICE,
                    error,
                    "lambda:InvokeFunction",
                    Some(&request.input),
                ));
            }
        };
        match arn {
            Some(arn) => Self::describe(client, request, &arn).await,
            None => self.find(client, request).await,
        }
    }

    /// Looks for the execution with the message's name, which exists.
    async fn find(&self, client: &Client, request: &Request) -> Result<Found, ExecutionError> {
        const ACTION: &str = "lambda:ListDurableExecutionsByFunction";
        let list = client.list_durable_executions_by_function();
        let list = list.function_name(self.function());
        let list = list.durable_execution_name(&request.name);
        let listed = list.send().await;
        let listed =
            listed.map_err(|error| ExecutionError::refused(SERVICE, error, ACTION, None))?;
        let mut listed = listed.durable_executions().iter();
        match listed.find(|it| it.durable_execution_name() == request.name) {
            Some(execution) => {
                let arn = execution.durable_execution_arn();
                Self::describe(client, request, arn).await
            }
            None => Err(request.unsettled(SERVICE)),
        }
    }

    async fn describe(
        client: &Client,
        request: &Request,
        arn: &str,
    ) -> Result<Found, ExecutionError> {
        const ACTION: &str = "lambda:GetDurableExecution";
        let get = client.get_durable_execution().durable_execution_arn(arn);
        let execution = get.send().await;
        let execution =
            execution.map_err(|error| ExecutionError::refused(SERVICE, error, ACTION, None))?;
        Ok(match execution.status() {
            ExecutionStatus::Running | ExecutionStatus::Succeeded => {
                request.compare(execution.input_payload())
            }
            status @ (ExecutionStatus::Failed
            | ExecutionStatus::Stopped
            | ExecutionStatus::TimedOut) => Found::Ended(status.to_string()),
            _ => return Err(request.unsettled(SERVICE)),
        })
    }
}

fn connect(config: &SdkConfig) -> Client {
    let config = Builder::from(config)
        .retry_partition(RetryPartition::new("sqs-once durable functions"))
        .retry_classifier(aws::SignAgain)
        .build();
    Client::from_conf(config)
}
