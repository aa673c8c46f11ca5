//! The real SDK client on an embedded DynamoDB, in simulated time. A request blocks the test's thread until its answer
//! arrives, so that no timer fires meanwhile. Counts the operations.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::http::StatusCode;
use sqs_once::DynamoDbStore;
use sqs_once_local::{LocalDynamoDb, TableDescription};
use tokio::sync::oneshot;

/// The settings of every client of the tests.
pub(crate) fn config(endpoint: &str) -> aws_sdk_dynamodb::config::Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(endpoint)
}

/// A client over real HTTP.
pub(crate) fn client(endpoint: &str) -> Client {
    let http = aws_smithy_http_client::Builder::new().build_http();
    Client::from_conf(config(endpoint).http_client(http).build())
}

#[derive(Clone, Debug)]
pub(crate) struct DynamoDb {
    address: String,
    operations: Arc<Mutex<Vec<String>>>,
    /// Dropping the last sender stops the server.
    _stop: Arc<oneshot::Sender<()>>,
}

impl DynamoDb {
    /// Starts a DynamoDB with the default table. It runs on its own thread, since it must answer while the test's thread
    /// is blocked.
    pub(crate) fn start() -> Self {
        let (started, endpoint) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(async {
                let dynamodb = LocalDynamoDb::memory().await.unwrap();
                dynamodb.create_table(&TableDescription::default()).unwrap();
                started.send(dynamodb.endpoint()).unwrap();
                // An error means that the sender was dropped, which is the only way to end.
                let _ = stopped.await;
            });
        });
        let endpoint = endpoint.recv().unwrap();
        Self {
            address: endpoint.strip_prefix("http://").unwrap().to_owned(),
            operations: Arc::default(),
            _stop: Arc::new(stop),
        }
    }

    pub(crate) fn client(&self) -> Client {
        let connector = SharedHttpConnector::new(self.clone());
        let config = config(&format!("http://{}", self.address));
        let config = config.http_client(http_client_fn(move |_, _| connector.clone()));
        Client::from_conf(config.build())
    }

    /// The table's store.
    pub(crate) fn store(&self) -> DynamoDbStore {
        DynamoDbStore::new(self.client(), TableDescription::default().name)
    }

    /// The operations since the previous call, in order.
    pub(crate) fn take_operations(&self) -> Vec<String> {
        std::mem::take(&mut self.operations.lock().unwrap())
    }

    fn round_trip(&self, request: &HttpRequest) -> HttpResponse {
        // An HTTP/1.0 answer is not chunked and ends with the connection.
        let mut message = format!("POST / HTTP/1.0\r\nHost: {}\r\n", self.address).into_bytes();
        for (name, value) in request.headers() {
            write!(message, "{name}: {value}\r\n").unwrap();
        }
        message.extend(b"\r\n");
        message.extend(request.body().bytes().unwrap());
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.write_all(&message).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        let status = StatusCode::try_from(status).unwrap();
        HttpResponse::new(status, body.to_owned().into())
    }
}

impl HttpConnector for DynamoDb {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap();
        let operation = target.rsplit('.').next().unwrap().to_owned();
        self.operations.lock().unwrap().push(operation);
        let dynamodb = self.clone();
        HttpConnectorFuture::new(async move { Ok(dynamodb.round_trip(&request)) })
    }
}
