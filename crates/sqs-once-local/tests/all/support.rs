//! A small HTTP client that uses one connection for each request, the scripted function, and queues.

use sqs_once_local::{Launch, LocalSqs, Page, QueueSettings, Queues, Received, Redrive};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

pub(crate) async fn http(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> HttpResponse {
    http_as(&address.to_string(), address, method, path, headers, body).await
}

/// Sends a request with `host` in its `Host` header.
pub(crate) async fn http_as(
    host: &str,
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> HttpResponse {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    raw(address, &request).await
}

/// Sends a raw request, which must ask for the connection to be closed.
pub(crate) async fn raw(address: SocketAddr, request: &str) -> HttpResponse {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    HttpResponse {
        status: head[9..12].parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// The address of an endpoint such as `http://127.0.0.1:40001`.
pub(crate) fn address(endpoint: &str) -> SocketAddr {
    endpoint["http://".len()..].parse().unwrap()
}

pub(crate) async fn call(sqs: &LocalSqs, operation: &str, body: &str) -> HttpResponse {
    let headers = format!("X-Amz-Target: AmazonSQS.{operation}\r\n{SQS_JSON}");
    http(address(&sqs.endpoint()), "POST", "/", &headers, body).await
}

pub(crate) const SQS_JSON: &str = "Content-Type: application/x-amz-json-1.0\r\n";

pub(crate) async fn token(page: &Page) -> String {
    let html = http(page.address(), "GET", "/", "", "").await.body;
    let (_, token) = html.split_once(r#""token":""#).unwrap();
    token.split_once('"').unwrap().0.to_owned()
}

pub(crate) fn page_headers(token: &str) -> String {
    format!("X-Sqs-Once-Token: {token}\r\nContent-Type: application/json\r\n")
}

/// Longer than any step takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The example `scripted`, which cargo builds along with the tests.
pub(crate) fn scripted() -> Launch {
    let test = std::env::current_exe().unwrap();
    let profile: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
    // A busy machine starts processes slowly.
    Launch::new(profile.join("examples/scripted")).init_limit(LIMIT)
}

pub(crate) const QUEUE: &str = "orders";
pub(crate) const DEAD: &str = "orders-dead";

/// A simulated time.
pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

pub(crate) fn ids(received: &[Received]) -> Vec<&str> {
    received.iter().map(|one| one.message.id.as_str()).collect()
}

/// The settings of a queue that moves a message to `to` after `max_receive_count` receives.
pub(crate) fn redrive(to: &str, max_receive_count: u32) -> QueueSettings {
    let to = to.to_owned();
    QueueSettings {
        redrive: Some(Redrive {
            to,
            max_receive_count,
        }),
        ..QueueSettings::default()
    }
}

/// A queue with this maximum receive count, and its dead-letter queue.
pub(crate) fn queues(max_receive_count: u32) -> Queues {
    let mut queues = Queues::default();
    queues.create(DEAD, QueueSettings::default()).unwrap();
    let settings = redrive(DEAD, max_receive_count);
    queues.create(QUEUE, settings).unwrap();
    queues
}
