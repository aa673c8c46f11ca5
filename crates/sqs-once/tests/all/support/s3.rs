//! A stand-in for S3 that keeps objects, and answers as requested, in simulated time.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region, RequestChecksumCalculation};
use aws_sdk_s3::primitives::SdkBody;
use aws_sdk_s3::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use bytes::Bytes;
use http_body::{Body, Frame};

use super::{Notes, Turns};

/// The fate of a request.
#[derive(Clone, Debug, Default)]
pub(crate) enum Turn {
    /// S3 executes the request and answers.
    #[default]
    Do,
    /// S3 rejects the request with a status and an error code. Its message quotes the object's key.
    Refuse(u16, &'static str),
    /// The connection closes before the answer.
    LoseAnswer,
    /// S3 answers with these parts of a body and no length. `None` never comes.
    Parts(Vec<Option<&'static [u8]>>),
    /// S3 answers with this part of a body, and the connection breaks.
    Break(&'static [u8]),
    Hang,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct S3 {
    turns: Arc<Mutex<Turns<Turn>>>,
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// Method and path, such as `GET /bucket/key`.
    requests: Notes<String>,
}

impl S3 {
    /// Sets the turns of the next requests. Later requests succeed.
    pub(crate) fn turns(turns: impl IntoIterator<Item = Turn>) -> Self {
        let s3 = Self::default();
        s3.turns.lock().unwrap().next.extend(turns);
        s3
    }

    pub(crate) fn always(turn: Turn) -> Self {
        let s3 = Self::default();
        s3.turns.lock().unwrap().then = turn;
        s3
    }

    pub(crate) fn client(&self) -> Client {
        let connector = SharedHttpConnector::new(self.clone());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-central-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .retry_config(RetryConfig::disabled())
            // Otherwise the body of a request is a stream.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .force_path_style(true)
            .build();
        Client::from_conf(config)
    }

    /// Puts an object at `bucket/key`.
    pub(crate) fn put(&self, path: &str, object: impl Into<Vec<u8>>) {
        let mut objects = self.objects.lock().unwrap();
        objects.insert(path.to_owned(), object.into());
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    /// The requests since the previous call.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.take()
    }

    fn done(&self, method: &str, path: &str, body: &[u8]) -> HttpResponse {
        let mut objects = self.objects.lock().unwrap();
        match method {
            "GET" => match objects.get(path) {
                Some(object) => {
                    let mut found = answer(200, object.clone());
                    let length = object.len().to_string();
                    found.headers_mut().insert("content-length", length);
                    found
                }
                None => error(404, "NoSuchKey", path),
            },
            "PUT" => {
                objects.insert(path.to_owned(), body.to_vec());
                let mut stored = answer(200, "");
                stored.headers_mut().insert("etag", "\"1\"");
                stored
            }
            other => panic!("{other} is not an operation of this stand-in"),
        }
    }
}

impl HttpConnector for S3 {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (_, rest) = request.uri().split_once("://").unwrap();
        let path = rest.split('?').next().unwrap();
        let (_, path) = path.split_once('/').unwrap();
        let method = request.method();
        self.requests.add(format!("{method} {path}"));
        let body = request.body().bytes().unwrap();
        let turn = self.turns.lock().unwrap().take();
        let answer = match turn {
            Turn::Do => Ok(self.done(method, path, body)),
            Turn::Refuse(status, code) => Ok(error(status, code, path)),
            Turn::LoseAnswer => Err(ConnectorError::io("the connection was closed".into())),
            Turn::Parts(parts) => Ok(in_parts(parts, false)),
            Turn::Break(part) => Ok(in_parts([Some(part)], true)),
            Turn::Hang => return HttpConnectorFuture::new(std::future::pending()),
        };
        HttpConnectorFuture::ready(answer)
    }
}

fn in_parts(parts: impl IntoIterator<Item = Option<&'static [u8]>>, breaks: bool) -> HttpResponse {
    let parts = parts.into_iter().collect();
    answer(200, SdkBody::from_body_1_x(Parts { parts, breaks }))
}

fn answer(status: u16, body: impl Into<SdkBody>) -> HttpResponse {
    HttpResponse::new(StatusCode::try_from(status).unwrap(), body.into())
}

fn error(status: u16, code: &str, path: &str) -> HttpResponse {
    let body = format!("<Error><Code>{code}</Code><Message>about {path}</Message></Error>");
    answer(status, body)
}

struct Parts {
    parts: VecDeque<Option<&'static [u8]>>,
    breaks: bool,
}

impl Body for Parts {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.parts.front() == Some(&None) {
            return Poll::Pending;
        }
        match self.parts.pop_front().flatten() {
            Some(part) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(part))))),
            None if self.breaks => {
                Poll::Ready(Some(Err(std::io::Error::other("the connection was reset"))))
            }
            None => Poll::Ready(None),
        }
    }
}
