//! The limit: the same requests from a plain HTTP client, without the SDK and without Lambda's runtime, in one thread.
//! It signs no requests and uses no TLS.

mod batched;

use std::borrow::Cow;
use std::collections::HashSet;
use std::env;

use batched::{Error, Message, Outcome, Parameter, Wire};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once_bench::contract::{self, Work};

/// A header as long as a signature, so the same number of bytes is sent.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=local/20260101/eu-central-1/dynamodb/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target;x-amz-user-agent, Signature=0000000000000000000000000000000000000000000000000000000000000000";

type Http = Client<HttpConnector, Full<Bytes>>;

struct Bare {
    http: Http,
    endpoint: String,
    table: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event<'a> {
    #[serde(borrow)]
    records: Vec<Record<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow)]
    message_id: Cow<'a, str>,
    #[serde(borrow)]
    body: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer<'a> {
    #[serde(borrow)]
    responses: Vec<Statement<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statement<'a> {
    #[serde(borrow)]
    error: Option<Refusal<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Refusal<'a> {
    code: &'a str,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let bare = Bare {
        http: Client::builder(TokioExecutor::new()).build_http(),
        endpoint: env::var("AWS_ENDPOINT_URL_DYNAMODB")?,
        table: env::var(contract::TABLE)?,
    };
    // Opens the connection during init, so the first batch does not wait for it.
    bare.completed(&[batched::NO_ITEM.to_owned()]).await?;
    let (claims, work) = (batched::claims_in_flight()?, Work::from_env());
    let runtime = format!(
        "http://{}/2018-06-01/runtime/invocation",
        env::var("AWS_LAMBDA_RUNTIME_API")?
    );
    loop {
        let next = Request::get(format!("{runtime}/next")).body(Full::default())?;
        let next = bare.http.request(next).await?;
        let id = header(&next, "lambda-runtime-aws-request-id")?.to_owned();
        let deadline = header(&next, "lambda-runtime-deadline-ms")?.parse()?;
        let event = next.into_body().collect().await?.to_bytes();
        let event: Event<'_> = serde_json::from_slice(&event)?;
        let messages = event.records.into_iter().map(|record| Message {
            id: record.message_id.into_owned(),
            body: record.body.into_owned(),
        });
        let messages = messages.collect();
        let failures =
            batched::process(&bare, &bare.table, messages, deadline, claims, work).await?;
        let failures: Vec<_> = failures
            .iter()
            .map(|id| json!({"itemIdentifier": id}))
            .collect();
        let answer = json!({"batchItemFailures": failures}).to_string();
        let answer = Request::post(format!("{runtime}/{id}/response")).body(answer.into())?;
        bare.http
            .request(answer)
            .await?
            .into_body()
            .collect()
            .await?;
    }
}

fn header<'a, B>(response: &'a Response<B>, name: &str) -> Result<&'a str, Error> {
    let value = response
        .headers()
        .get(name)
        .ok_or_else(|| format!("no header {name}"))?;
    Ok(value.to_str()?)
}

impl Bare {
    async fn send(&self, operation: &str, body: String) -> Result<Bytes, Error> {
        let request = Request::post(&self.endpoint)
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("authorization", AUTHORIZATION)
            .body(body.into())?;
        let answer = self.http.request(request).await?;
        if !answer.status().is_success() {
            return Err(format!("{operation} was answered with {}", answer.status()).into());
        }
        Ok(answer.into_body().collect().await?.to_bytes())
    }
}

impl Wire for Bare {
    async fn execute(
        &self,
        statement: &str,
        parameters: Vec<Vec<Parameter>>,
    ) -> Result<Vec<Outcome>, Error> {
        let statement = serde_json::to_string(statement)?;
        let mut body = String::from(r#"{"Statements":["#);
        for (index, parameters) in parameters.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            body.extend([comma, r#"{"Statement":"#, &statement, r#","Parameters":["#]);
            for (index, parameter) in parameters.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                // These texts need no escaping: they are digits, hexadecimal or the status.
                match parameter {
                    Parameter::S(text) => body.extend([comma, r#"{"S":""#, text, r#""}"#]),
                    Parameter::N(number) => {
                        body.extend([comma, r#"{"N":""#, &number.to_string(), r#""}"#]);
                    }
                }
            }
            body.push_str(r#"],"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}"#);
        }
        body.push_str("]}");
        let answer = self.send("BatchExecuteStatement", body).await?;
        let answer: Answer<'_> = serde_json::from_slice(&answer)?;
        let outcomes = answer
            .responses
            .iter()
            .map(|response| match &response.error {
                None => Outcome::Done,
                Some(refusal) if refusal.code == "DuplicateItem" => Outcome::Duplicate,
                Some(_) => Outcome::Refused,
            });
        Ok(outcomes.collect())
    }

    async fn completed(&self, ids: &[String]) -> Result<HashSet<String>, Error> {
        let keys: Vec<_> = ids.iter().map(|id| json!({"id": {"S": id}})).collect();
        let wanted = json!({"Keys": keys, "ConsistentRead": true});
        let body = json!({"RequestItems": {&self.table: wanted}});
        let answer = self.send("BatchGetItem", body.to_string()).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let items = answer["Responses"][&self.table].as_array();
        let items = items.into_iter().flatten();
        let completed = items.filter(|item| item["status"]["S"] == "COMPLETED");
        let ids = completed.filter_map(|item| Some(item["id"]["S"].as_str()?.to_owned()));
        Ok(ids.collect())
    }
}
