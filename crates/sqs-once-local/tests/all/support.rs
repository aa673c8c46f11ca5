//! A small HTTP client that uses one connection for each request, and queues that a story observes.

use sqs_once_local::{QueueSettings, Queues, Redrive, Story};
use std::net::SocketAddr;
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

pub(crate) const QUEUE: &str = "orders";
pub(crate) const DEAD: &str = "orders-dlq";

/// A queue whose messages are received once, and its dead-letter queue. The story observes both.
pub(crate) fn queues(story: &Story) -> Queues {
    let mut queues = Queues::default();
    queues.observe(story.observer());
    queues.create(DEAD, QueueSettings::default()).unwrap();
    let redrive = Redrive {
        to: DEAD.to_owned(),
        max_receive_count: 1,
    };
    let settings = QueueSettings {
        redrive: Some(redrive),
        ..QueueSettings::default()
    };
    queues.create(QUEUE, settings).unwrap();
    queues
}
