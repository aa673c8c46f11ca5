//! State machines of Step Functions.

use std::fmt;
use std::sync::Arc;

use aws_config::SdkConfig;
use aws_sdk_sfn::Client;
use aws_sdk_sfn::config::Builder;
use aws_sdk_sfn::config::retry::RetryPartition;
use aws_sdk_sfn::error::ProvideErrorMetadata;
use aws_sdk_sfn::types::ExecutionStatus;
use serde::Serialize;

use crate::aws::{self, LazyClient};
use crate::error::ConfigError;

use super::ExecutionError;
use super::start::{Found, Request, StartExecution};

const SERVICE: &str = "Step Functions";

/// A state machine of Step Functions, of the type *Standard*. Create it once and keep it in the handler's
/// [`State`](crate::State).
///
/// A name starts at most one execution for 90 days: this is how long Step Functions knows the names of executions that have
/// ended. After that the completion of the key prevents a second start, for as long as the handler keeps it
/// ([`retention`](crate::Handler::retention)). Executions of the type *Express* have no such names, so that a repeated start
/// starts another one: messages are terminal after the start of such an execution.
///
/// The function's role needs `states:StartExecution` on the state machine, and `states:DescribeExecution` on its
/// executions.
///
/// ```no_run
/// use serde::{Deserialize, Serialize};
/// use sqs_once::executions::{StartExecution, StateMachine};
/// use sqs_once::{Consumer, HandlerError, State};
///
/// #[derive(Deserialize, Serialize)]
/// struct OrderPlaced { order_id: String }
///
/// /// Starts the fulfilment of an order, once.
/// #[sqs_once::handler(key = order.order_id, namespace = "fulfilment")]
/// async fn fulfil(
///     order: OrderPlaced,
///     State(fulfilment): State<StateMachine>,
/// ) -> Result<StartExecution, HandlerError> {
///     Ok(fulfilment.start(&order))
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), sqs_once::Error> {
///     let fulfilment = StateMachine::new(std::env::var("FULFILMENT_ARN")?)?;
///     sqs_once::run(fulfil::consumer(fulfilment)).await
/// }
/// ```
#[derive(Clone)]
pub struct StateMachine {
    arn: Arc<str>,
    client: LazyClient<Client>,
}

impl fmt::Debug for StateMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateMachine").field(&self.arn).finish()
    }
}

impl StateMachine {
    /// Names a state machine by its ARN, which may end in a version or an alias.
    ///
    /// # Errors
    /// If the text is not the ARN of a state machine.
    pub fn new(arn: impl Into<String>) -> Result<Self, ConfigError> {
        let arn = arn.into();
        let parts: Vec<_> = arn.split(':').collect();
        match parts[..] {
            ["arn", _, "states", _, _, "stateMachine", _]
            | ["arn", _, "states", _, _, "stateMachine", _, _] => Ok(Self {
                arn: arn.into(),
                client: LazyClient::default(),
            }),
            _ => Err(ConfigError::invalid(
                "StateMachine::new",
                format!("has {arn:?}, which is no ARN of a state machine"),
                "arn:aws:states:REGION:ACCOUNT:stateMachine:NAME",
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
        StartExecution::of_state_machine(self, input)
    }

    /// The ARN without a version and an alias.
    pub(super) fn unqualified(&self) -> &str {
        let name = self.arn.match_indices(':').nth(6);
        name.map_or(&self.arn, |(end, _)| &self.arn[..end])
    }

    /// The ARN of an execution.
    fn execution(&self, name: &str) -> String {
        let machine = self
            .unqualified()
            .replacen(":stateMachine:", ":execution:", 1);
        format!("{machine}:{name}")
    }

    pub(super) async fn request(&self, request: &Request) -> Result<Found, ExecutionError> {
        let client = self.client.get(connect).await;
        let start = client.start_execution().state_machine_arn(&*self.arn);
        let start = start.name(&request.name).input(&request.input);
        match start.send().await {
            // No retry may start yet another one.
            Ok(started) if started.execution_arn().split(':').nth(5) == Some("express") => {
                let arn = started.execution_arn;
                Err(ExecutionError::Express { arn })
            }
            // It is new, or runs with the same input.
            Ok(_) => Ok(Found::Same),
            Err(error) if error.code() == Some("ExecutionAlreadyExists") => {
                self.find(client, request).await
            }
            Err(error) => Err(ExecutionError::refused(
                SERVICE,
                error,
                "states:StartExecution",
                Some(&request.input),
            )),
        }
    }

    async fn find(&self, client: &Client, request: &Request) -> Result<Found, ExecutionError> {
        let describe = client.describe_execution();
        let describe = describe.execution_arn(self.execution(&request.name));
        let execution = describe.send().await;
        let execution = execution.map_err(|error| {
            ExecutionError::refused(SERVICE, error, "states:DescribeExecution", None)
        })?;
        match (execution.status(), request.compare(execution.input())) {
            (ExecutionStatus::Succeeded, found) => Ok(found),
            (
                status @ (ExecutionStatus::Aborted
                | ExecutionStatus::Failed
                | ExecutionStatus::TimedOut),
                _,
            ) => Ok(Found::Ended(status.to_string())),
            // With the same input, a start finds one that runs. So this answer is older than the end.
            (_, Found::Same) => Err(request.unsettled(SERVICE)),
            (_, found) => Ok(found),
        }
    }
}

fn connect(config: &SdkConfig) -> Client {
    let config = Builder::from(config)
        .retry_partition(RetryPartition::new("sqs-once step functions"))
        .retry_classifier(aws::SignAgain)
        .build();
    Client::from_conf(config)
}
