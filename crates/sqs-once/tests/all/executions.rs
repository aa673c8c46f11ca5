//! Handlers that start executions: of Step Functions, and of durable Lambda functions.

use std::collections::HashMap;
use std::future::ready;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::http::{Response, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sqs_once::executions::{DurableFunction, ExecutionError, StartExecution, StateMachine};
use sqs_once::handler::IntoOutcome;
use sqs_once::policy::{MissingKey, PayloadMismatch};
use sqs_once::sdk::sfn::config::retry::RetryConfig;
use sqs_once::sdk::sfn::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use sqs_once::sdk::{lambda, sfn};
use sqs_once_local::LocalExecutions;
use tokio::task::yield_now;

use crate::support::{
    Bench, Order, SECOND, Tested, assert_contains, body, codes, ends, orders, values,
    with_attribute,
};

pub(crate) const MACHINE: &str = "arn:aws:states:eu-central-1:123456789012:stateMachine:fulfilment";
const RESTARTS: &str = "execution-restarts";

/// What an order starts.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Machine(StateMachine),
    Function(DurableFunction),
}

impl Target {
    pub(crate) fn start(&self, input: &Value) -> StartExecution {
        match self {
            Self::Machine(machine) => machine.start(input),
            Self::Function(function) => function.start(input),
        }
    }

    pub(crate) fn on(self, aws: &LocalExecutions) -> Self {
        let http = aws_smithy_http_client::Builder::new().build_http();
        self.at(&aws.endpoint(), http)
    }

    /// Lets every request be refused with this code, or answered as it says, or remain without an answer.
    fn refusing(self, code: Option<&'static str>) -> Self {
        let http = http_client_fn(move |_, _| SharedHttpConnector::new(Refusing(code)));
        self.at("http://127.0.0.1:9", http)
    }

    fn at(self, endpoint: &str, http: SharedHttpClient) -> Self {
        let credentials = Credentials::new("local", "local", None, None, "test");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-central-1"))
            .retry_config(RetryConfig::disabled())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(endpoint)
            .http_client(http)
            .build();
        match self {
            Self::Machine(it) => Self::Machine(it.client(sfn::Client::new(&config))),
            Self::Function(it) => Self::Function(it.client(lambda::Client::new(&config))),
        }
    }
}

pub(crate) fn machine(arn: &str) -> Target {
    Target::Machine(StateMachine::new(arn).unwrap())
}

fn function(name: &str) -> Target {
    Target::Function(DurableFunction::new(name).unwrap())
}

fn targets() -> [Target; 2] {
    [machine(MACHINE), function("fulfilment:live")]
}

/// What a lagging read of Step Functions shows of an execution that has ended.
const STALE: &str = "ExecutionAlreadyExists";
/// An answer of Lambda's that names no execution, and a list without it.
const UNLISTED: &str = "unlisted";
/// A start whose name does not keep it from happening twice.
const EXPRESS: &str = "express";

#[derive(Debug)]
struct Refusing(Option<&'static str>);

impl HttpConnector for Refusing {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let answer = match self.0 {
            Some(STALE) if target.ends_with("DescribeExecution") => Some(json!({
                "executionArn": "arn", "stateMachineArn": "arn", "startDate": 1, "status": "RUNNING",
                "input": r#"{ "total": 0, "order": "o-1" }"#,
            })),
            Some(UNLISTED) => Some(json!({ "DurableExecutions": [] })),
            Some(EXPRESS) => {
                let arn = MACHINE.replace("stateMachine", "express") + ":name:0b9b8f0e";
                Some(json!({ "executionArn": arn, "startDate": 1 }))
            }
            _ => None,
        };
        if let Some(answer) = answer {
            let status = StatusCode::try_from(200).unwrap();
            let answer = Response::new(status, answer.to_string().into());
            return HttpConnectorFuture::ready(Ok(answer));
        }
        let Some(code) = self.0 else {
            let closed = std::io::Error::other("the connection was closed");
            return HttpConnectorFuture::ready(Err(
                aws_smithy_runtime_api::client::result::ConnectorError::io(closed.into()),
            ));
        };
        let body = json!({ "__type": code, "message": "no" }).to_string();
        let mut answer = Response::new(StatusCode::try_from(400).unwrap(), body.into());
        answer.headers_mut().insert("x-amzn-errortype", code);
        HttpConnectorFuture::ready(Ok(answer))
    }
}

fn starting(target: Target) -> Tested {
    let handler = orders().call(move |order: Order| {
        ready(target.start(&json!({ "order": order.id, "total": order.total })))
    });
    Bench::new().on(handler)
}

/// Delivers an order to a process that dies after the start of its execution. Then its lease lapses.
async fn dies_after_start(bench: &Tested, aws: &LocalExecutions, id: &str) {
    let before = aws.all().len();
    bench.store.settlements_take(|_| Duration::MAX);
    let started = async {
        while aws.all().len() == before {
            yield_now().await;
        }
    };
    tokio::select! {
        _ = bench.run([id]) => panic!("its key was completed"),
        () = started => {}
    }
    bench.store.settlements_take(|_| Duration::ZERO);
    bench.clock.advance(60 * SECOND);
}

fn total(id: &str, total: u64) -> Value {
    crate::support::json_body(&json!({ "id": id, "total": total }))
}

#[tokio::test]
async fn an_execution_starts_once_for_each_key_also_if_its_completion_is_lost() {
    for target in targets() {
        let aws = LocalExecutions::start(0).await.unwrap();
        let bench = starting(target.on(&aws));
        dies_after_start(&bench, &aws, "o-1").await;
        assert_eq!(bench.run(["o-1", "o-2"]).await, [""; 0]);
        assert_eq!(bench.run(["o-1"]).await, [""; 0]);
        assert_eq!(bench.outcomes(), "duplicate processed processed");
        let started = aws.all();
        assert_eq!(started.len(), 2, "{started:?}");
        assert_eq!(started[0].input, r#"{"order":"o-1","total":0}"#);
        assert_eq!(started[0].name.len(), 32);
    }
}

#[tokio::test]
async fn an_execution_that_has_ended_without_success_is_a_dead_letter_until_it_is_restarted() {
    for target in targets() {
        let aws = LocalExecutions::start(0).await.unwrap();
        let bench = starting(target.on(&aws));
        for (status, ends_as) in [("SUCCEEDED", "processed"), ("FAILED", "terminal")] {
            let id = status.to_lowercase();
            dies_after_start(&bench, &aws, &id).await;
            aws.end(status);
            bench.run([&*id]).await;
            let ended = ends(bench.lines());
            assert_eq!(ended[0].0, ends_as, "{status}");
            if ends_as == "terminal" {
                assert_contains!(ended[0].1, "the execution ", " ended FAILED: ");
            }
        }
        let before = aws.all().len();
        for (restarts, status) in [("1", "FAILED"), ("2", "RUNNING")] {
            let again = with_attribute(total("failed", 0), RESTARTS, restarts);
            assert_eq!(bench.run([again]).await, [""; 0]);
            bench.forget("failed");
            aws.end(status);
        }
        assert_eq!(aws.all().len(), before + 2);
    }
}

#[tokio::test]
async fn another_input_under_the_name_of_an_execution_is_treated_like_another_payload() {
    for (policy, outcome) in [
        (PayloadMismatch::Terminal, "terminal: payload-mismatch"),
        (PayloadMismatch::Retry, "failed: payload-mismatch"),
        (PayloadMismatch::Acknowledge, "processed"),
    ] {
        for target in targets() {
            for status in ["RUNNING", "SUCCEEDED"] {
                let aws = LocalExecutions::start(0).await.unwrap();
                let bench = starting(target.clone().on(&aws));
                let bench = bench.with(|it| it.payload_mismatch(policy));
                bench.run([total("o-1", 1)]).await;
                aws.end(status);
                // The key is forgotten, with its payload.
                bench.forget("o-1");
                bench.store.change("o-1", |item| item.fingerprint = None);
                bench.lines();
                bench.run([total("o-1", 2)]).await;
                assert_eq!(codes(&bench.lines()), outcome, "{target:?} {status}");
                let warnings = bench.log.take("sqs_once::executions::start").len();
                assert_eq!(warnings, usize::from(outcome == "processed"));
                assert_eq!(aws.all().len(), 1);
            }
        }
    }
}

#[tokio::test]
async fn versions_and_aliases_of_a_target_have_one_name_for_a_key_and_the_input_has_sorted_fields()
{
    let aws = LocalExecutions::start(0).await.unwrap();
    for names in [
        [MACHINE.to_owned(), format!("{MACHINE}:live")].map(|arn| machine(&arn)),
        [
            "fulfilment:1",
            "arn:aws:lambda:eu-central-1:123456789012:function:fulfilment:2",
        ]
        .map(function),
    ] {
        let before = aws.all().len();
        for target in names {
            let target = target.on(&aws);
            // A map of Rust's has another order each time.
            let handler = orders().call(move |order: Order| {
                let fields: HashMap<_, _> = (0..20).map(|at| (at.to_string(), at)).collect();
                ready(target.start(&json!({ "fields": fields, "order": [{ "id": order.id }] })))
            });
            let bench = Bench::new().on(handler);
            assert_eq!(bench.run(["o-1"]).await, [""; 0]);
        }
        assert_eq!(aws.all().len(), before + 1);
    }
}

#[tokio::test]
async fn a_refusal_says_what_to_do_and_only_an_input_that_is_refused_is_terminal() {
    let [allow, limit, invalid, large] = [
        "the function's role must allow ",
        "answered ExecutionLimitExceeded",
        "answered ValidationException",
        "answered RequestTooLargeException",
    ];
    for (code, outcome, reason) in [
        (Some("AccessDeniedException"), "failed", allow),
        (Some("ExecutionLimitExceeded"), "failed", limit),
        (Some("ValidationException"), "failed", invalid),
        (Some("RequestTooLargeException"), "terminal", large),
        (None, "failed", "did not answer: "),
    ] {
        for target in targets() {
            let bench = starting(target.refusing(code));
            bench.run(["o-1"]).await;
            let ended = ends(bench.lines());
            assert_eq!(ended[0].0, outcome, "{code:?}");
            assert_contains!(ended[0].1, reason);
        }
    }
}

#[tokio::test]
async fn an_execution_that_seems_to_run_although_its_name_is_taken_is_asked_about_again() {
    let bench = starting(machine(MACHINE).refusing(Some(STALE)));
    assert_eq!(bench.run(["o-1"]).await, ["m-0"]);
    let ended = ends(bench.lines());
    assert_eq!(ended[0].0, "failed");
    let said = "Step Functions does not tell yet how the execution ";
    assert_contains!(ended[0].1, said);
}

/// Its message has no claim, and so may be a repeated one.
#[tokio::test]
async fn a_repeated_start_of_which_lambda_shows_no_execution_is_not_taken_for_done() {
    let target = function("fulfilment:live").refusing(Some(UNLISTED));
    let handler = values().call(move |order: Value| ready(target.start(&order)));
    let bench = Bench::new().on(handler.missing_key(MissingKey::ProcessUnprotected));
    assert_eq!(bench.run([body("{}")]).await, ["m-0"]);
    let ended = ends(bench.lines());
    assert_eq!(ended[0].0, "failed");
    let said = "Lambda does not tell yet how the execution ";
    assert_contains!(ended[0].1, said);
}

/// Each retry would start another one.
#[tokio::test]
async fn an_execution_of_an_express_state_machine_is_started_once_and_its_message_is_terminal() {
    let bench = starting(machine(MACHINE).refusing(Some(EXPRESS)));
    bench.run(["o-1"]).await;
    let ended = ends(bench.lines());
    assert_eq!(ended[0].0, "terminal");
    let said = "take one of the type Standard, and redrive this message, unless the execution arn:aws:states:";
    assert_contains!(ended[0].1, said);
}

#[tokio::test]
async fn an_unprotected_message_asks_for_its_execution_too() {
    let aws = LocalExecutions::start(0).await.unwrap();
    let target = function("fulfilment:live").on(&aws);
    let handler = values().call(move |order: Value| ready(target.start(&order)));
    let bench = Bench::new().on(handler.missing_key(MissingKey::ProcessUnprotected));
    let message = || body(r#"{"total":1}"#);
    assert_eq!(bench.run([message()]).await, [""; 0]);
    aws.end("FAILED");
    bench.lines();
    bench.run([message()]).await;
    let ended = ends(bench.lines());
    assert_eq!(ended[0].0, "terminal");
    assert_contains!(ended[0].1, " ended FAILED: ");
}

#[tokio::test]
async fn an_input_keeps_the_digits_of_its_numbers() {
    let aws = LocalExecutions::start(0).await.unwrap();
    let target = machine(MACHINE).on(&aws);
    let Target::Machine(machine) = target else {
        panic!("a machine")
    };
    let handler = orders().call(move |_: Order| {
        let exact = r#"{ "b": [0.1, 18446744073709551617], "a": "\u00e9" }"#;
        ready(machine.start(&serde_json::from_str::<Box<RawValue>>(exact).unwrap()))
    });
    Bench::new().on(handler).run(["o-1"]).await;
    let expected = r#"{"a":"é","b":[0.1,18446744073709551617]}"#;
    assert_eq!(aws.all()[0].input, expected);
}

/// Each level takes stack, and the producer chooses their number.
#[tokio::test]
async fn an_input_of_more_levels_than_a_stack_has_room_for_is_terminal() {
    let aws = LocalExecutions::start(0).await.unwrap();
    for (levels, ends_as) in [(128, "processed"), (129, "terminal"), (100_000, "terminal")] {
        let Target::Machine(machine) = machine(MACHINE).on(&aws) else {
            panic!("a machine")
        };
        let handler = orders().call(move |_: Order| {
            let deep = "[".repeat(levels) + &"]".repeat(levels);
            ready(machine.start(&RawValue::from_string(deep).unwrap()))
        });
        let bench = Bench::new().on(handler);
        bench.run([&*format!("o-{levels}")]).await;
        assert_eq!(bench.outcomes(), ends_as, "{levels}");
    }
}

#[test]
fn a_target_that_can_t_be_started_by_name_is_refused_when_it_is_named() {
    for name in [
        "fulfilment",
        "fulfilment:",
        "function:fulfilment",
        "arn:aws:lambda:eu-central-1:1:function:f",
    ] {
        let refused = DurableFunction::new(name).unwrap_err().to_string();
        assert_contains!(refused, "names no version and no alias");
    }
    for arn in [
        "fulfilment",
        "arn:aws:lambda:eu-central-1:1:function:f:live",
    ] {
        let refused = StateMachine::new(arn).unwrap_err().to_string();
        assert_contains!(refused, "is no ARN of a state machine");
    }
}

#[test]
fn a_start_that_no_handler_returns_is_terminal() {
    let start = StateMachine::new(MACHINE).unwrap().start(&1);
    let error = start.into_outcome().unwrap_err();
    assert!(error.is_terminal());
    let error = error.get_ref().downcast_ref::<ExecutionError>();
    assert!(matches!(error, Some(ExecutionError::NotReturned)));
}
