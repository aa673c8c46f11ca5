//! A stand-in for SQS that records requests and answers as requested, in simulated time.

use std::sync::{Arc, Mutex};

use aws_sdk_sqs::config::http::{HttpRequest, HttpResponse};
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use serde_json::{Value, json};
use sqs_once::consumer::Queue;
use std::time::Duration;
use tokio::sync::Notify;

use super::{Notes, Turns};
use crate::no_secrets::watch::look_through;

/// The fate of a request.
#[derive(Clone, Debug, Default)]
pub(crate) enum Turn {
    /// SQS executes the request and answers.
    #[default]
    Do,
    /// SQS executes the request, but the connection closes before the answer.
    LoseAnswer,
    /// Something else answers in the place of SQS, with nothing.
    Empty,
    Attributes(Value),
    /// SQS rejects the request with an error code.
    Refuse(&'static str),
    /// SQS rejects the entries at these indexes and executes the others.
    RefuseEntries(&'static [usize]),
    /// SQS executes the request, and answers only when notified.
    Hold(Arc<Notify>),
    Hang,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) operation: String,
    pub(crate) body: Value,
    is_refused: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sqs {
    turns: Arc<Mutex<Turns<Turn>>>,
    requests: Notes<Request>,
    arrived: Arc<Notify>,
    /// The `maxReceiveCount` of every queue, if they have a redrive policy.
    max_receive_count: Option<u32>,
}

impl Sqs {
    /// Sets the turns of the next requests. Later requests succeed.
    pub(crate) fn turns(turns: impl IntoIterator<Item = Turn>) -> Self {
        let sqs = Self::default();
        sqs.turns.lock().unwrap().next.extend(turns);
        sqs
    }

    pub(crate) fn always(turn: Turn) -> Self {
        let sqs = Self::default();
        sqs.turns.lock().unwrap().then = turn;
        sqs
    }

    /// Answers for queues that deliver a message this often.
    pub(crate) fn delivering(max_receive_count: u32) -> Self {
        Self {
            max_receive_count: Some(max_receive_count),
            ..Self::default()
        }
    }

    /// Any queue, which this stand-in answers for.
    pub(crate) fn queue(&self) -> Queue {
        Queue::any().client(self.client())
    }

    pub(crate) fn client(&self) -> Client {
        let connector = SharedHttpConnector::new(self.clone());
        let timeout = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_secs(2));
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-central-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .timeout_config(timeout.build())
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .build();
        Client::from_conf(config)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.all()
    }

    /// The bodies of one operation's requests so far.
    pub(crate) fn asked(&self, operation: &str) -> Vec<Value> {
        let mut requests = self.requests();
        requests.retain(|request| request.operation == operation);
        requests.into_iter().map(|request| request.body).collect()
    }

    /// The bodies of the messages that were sent.
    pub(crate) fn sent(&self) -> Vec<Value> {
        let mut requests = self.requests();
        requests.retain(|it| it.operation == "SendMessage" && !it.is_refused);
        requests.into_iter().map(|request| request.body).collect()
    }

    /// Sets the turn of the next requests, after those that have one.
    pub(crate) fn next(&self, turn: &Turn, times: usize) {
        let mut turns = self.turns.lock().unwrap();
        turns.next.extend(vec![turn.clone(); times]);
    }

    pub(crate) fn reasons(&self) -> Vec<String> {
        let letters = self.asked("SendMessage").into_iter();
        let reasons = letters.map(|mut sent| {
            let reason = sent["MessageAttributes"]["sqs-once-reason"]["StringValue"].take();
            reason.as_str().unwrap().to_owned()
        });
        reasons.collect()
    }

    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

impl HttpConnector for Sqs {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap().to_owned();
        let body: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let entries = body["Entries"].as_array().map_or(0, Vec::len);
        // The attributes that the library adds to a dead letter.
        let attributes = body["MessageAttributes"].as_object().into_iter().flatten();
        for (name, value) in attributes.filter(|(name, _)| name.starts_with("sqs-once-")) {
            look_through(&value.to_string(), || name.clone());
        }
        let handle = body["Entries"][0]["ReceiptHandle"].to_string();
        let turn = self.turns.lock().unwrap().take();
        let is_refused = matches!(turn, Turn::Refuse(_));
        self.requests.add(Request {
            operation,
            body,
            is_refused,
        });
        self.arrived.notify_one();
        let count = self.max_receive_count;
        HttpConnectorFuture::new(async move {
            match turn {
                Turn::Do => Ok(done(entries, &[], count)),
                Turn::RefuseEntries(refused) => Ok(done(entries, refused, count)),
                Turn::Attributes(attributes) => {
                    Ok(answer(200, &json!({ "Attributes": attributes })))
                }
                Turn::Empty => Ok(answer(200, &json!({}))),
                Turn::LoseAnswer => Err(ConnectorError::io("the connection was closed".into())),
                Turn::Refuse(code) => {
                    // SQS quotes the request in its error.
                    let quoting = format!("Value {handle} for parameter ReceiptHandle");
                    let error = json!({ "__type": code, "message": quoting });
                    Ok(answer(400, &error))
                }
                Turn::Hold(gate) => {
                    gate.notified().await;
                    Ok(done(entries, &[], count))
                }
                Turn::Hang => std::future::pending().await,
            }
        })
    }
}

fn done(entries: usize, refused: &[usize], max_receive_count: Option<u32>) -> HttpResponse {
    let (failed, successful): (Vec<usize>, Vec<usize>) =
        (0..entries).partition(|entry| refused.contains(entry));
    let failed = failed.iter().map(|entry| {
        json!({ "Id": entry.to_string(), "SenderFault": true, "Code": "ReceiptHandleIsInvalid",
                "Message": "The input receipt handle receipt-handle-of-m-0 is invalid" })
    });
    let successful = successful
        .iter()
        .map(|entry| json!({ "Id": entry.to_string() }));
    let mut attributes = json!({ "VisibilityTimeout": "60" });
    if let Some(count) = max_receive_count {
        attributes["MessageRetentionPeriod"] = "345600".into();
        attributes["RedrivePolicy"] = json!({ "maxReceiveCount": count }).to_string().into();
    }
    let body = json!({
        "MessageId": "copy",
        "Attributes": attributes,
        "Successful": successful.collect::<Vec<_>>(),
        "Failed": failed.collect::<Vec<_>>(),
    });
    answer(200, &body)
}

fn answer(status: u16, body: &Value) -> HttpResponse {
    let status = StatusCode::try_from(status).unwrap();
    HttpResponse::new(status, body.to_string().into())
}
