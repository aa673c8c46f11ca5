//! Tests that every server refuses requests that a web page could send.

use crate::support::{http_as, raw};
use sqs_once_local::{
    Limits, LocalDynamoDb, LocalSqs, Page, QueueSettings, Queues, RuntimeApi, Story,
    TableDescription,
};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// The servers' limits of time and of connections.
const HEAD_TIME: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 256;

const AWS: &str = "Content-Type: application/x-amz-json-1.0\r\nX-Amz-Date: 20260101T000000Z\r\n\
    Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/r/s/aws4_request, SignedHeaders=host, Signature=0\r\n";

/// A server, and a request of a program that it accepts.
struct Listener {
    name: &'static str,
    address: SocketAddr,
    method: &'static str,
    path: &'static str,
    headers: String,
    body: &'static str,
}

/// All servers. Dropping it stops them.
struct All {
    _page: Page,
    _sqs: LocalSqs,
    _runtime_api: RuntimeApi,
    _dynamodb: LocalDynamoDb,
    listeners: Vec<Listener>,
}

impl All {
    async fn start() -> Self {
        let mut queues = Queues::default();
        queues.create("orders", QueueSettings::default()).unwrap();
        let sqs = LocalSqs::start(queues).await.unwrap();
        let story = Story::new("orders", None, Limits::default());
        let page = Page::start(story, None, 0).await.unwrap();
        let runtime_api = RuntimeApi::start("orders").await.unwrap();
        let dynamodb = LocalDynamoDb::memory().await.unwrap();
        dynamodb.create_table(&TableDescription::default()).unwrap();
        let listener = |name, address, method, path, target: &str, body| Listener {
            name,
            address,
            method,
            path,
            headers: format!("{AWS}X-Amz-Target: {target}\r\n"),
            body,
        };
        let at = |endpoint: String| endpoint[7..].parse().unwrap();
        let register = "/2020-01-01/extension/register";
        let listeners = vec![
            listener("page", page.address(), "GET", "/story", "-", ""),
            listener(
                "SQS",
                at(sqs.endpoint()),
                "POST",
                "/",
                "AmazonSQS.ListQueues",
                "{}",
            ),
            listener(
                "Runtime API",
                runtime_api.address(),
                "POST",
                register,
                "-",
                "{}",
            ),
            listener(
                "DynamoDB",
                at(dynamodb.endpoint()),
                "POST",
                "/",
                "DynamoDB_20120810.Scan",
                r#"{"TableName":"sqs-once"}"#,
            ),
        ];
        Self {
            _page: page,
            _sqs: sqs,
            _runtime_api: runtime_api,
            _dynamodb: dynamodb,
            listeners,
        }
    }
}

impl Listener {
    /// Returns the status for a request with this host name and these headers. Checks that the answer has no header that
    /// allows web pages to read it.
    async fn ask(&self, method: &str, host: &str, headers: &str) -> u16 {
        let headers = format!("{}{headers}", self.headers);
        let asked = http_as(host, self.address, method, self.path, &headers, self.body);
        let answer = asked.await;
        for name in [
            "access-control-allow-origin",
            "access-control-allow-headers",
            "access-control-max-age",
        ] {
            assert_eq!(answer.header(name), None, "{}: {name}", self.name);
        }
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            Some("same-origin")
        );
        answer.status
    }
}

#[tokio::test]
async fn every_server_listens_on_loopback_and_refuses_what_a_web_page_sends() {
    let all = All::start().await;
    for listener in &all.listeners {
        assert!(listener.address.ip().is_loopback(), "{}", listener.name);
        let port = listener.address.port();
        let own = format!("127.0.0.1:{port}");
        for host in [
            "evil.example".to_owned(),
            format!("evil.example:{port}"),
            format!("127.0.0.1.evil.example:{port}"),
            format!("localhost.evil.example:{port}"),
            format!("evil.localhost:{port}"),
            "10.0.0.1".to_owned(),
            "0.0.0.0".to_owned(),
            "localhost:evil".to_owned(),
            String::new(),
        ] {
            let status = listener.ask(listener.method, &host, "").await;
            assert_eq!(status, 403, "{} as {host}", listener.name);
        }
        for headers in [
            "Origin: https://evil.example\r\n".to_owned(),
            "Origin: null\r\n".to_owned(),
            "Origin: http://127.0.0.1:1\r\n".to_owned(),
            format!("Origin: https://{own}\r\n"),
            format!("Origin: http://{own}\r\nOrigin: null\r\n"),
            format!("Host: {own}\r\n"),
            "Sec-Fetch-Site: cross-site\r\n".to_owned(),
            "Sec-Fetch-Site: same-site\r\n".to_owned(),
        ] {
            for method in [listener.method, "GET", "OPTIONS"] {
                let status = listener.ask(method, &own, &headers).await;
                assert!(
                    [400, 403].contains(&status),
                    "{} {method} {headers}: {status}",
                    listener.name
                );
            }
        }
        let target = format!(
            "GET http://evil.example/ HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(
            raw(listener.address, &target).await.status,
            403,
            "{}",
            listener.name
        );
    }
}

#[tokio::test]
async fn every_server_answers_programs_of_this_machine() {
    let all = All::start().await;
    for listener in &all.listeners {
        let port = listener.address.port();
        for host in [
            format!("127.0.0.1:{port}"),
            format!("localhost:{port}"),
            "LOCALHOST".to_owned(),
            "127.1.2.3".to_owned(),
            format!("[::1]:{port}"),
            "[::1]".to_owned(),
            "127.0.0.1:1".to_owned(),
        ] {
            let status = listener.ask(listener.method, &host, "").await;
            assert_eq!(status, 200, "{} as {host}", listener.name);
        }
    }
}

#[tokio::test]
async fn every_server_limits_the_size_of_a_body() {
    let all = All::start().await;
    for listener in &all.listeners {
        // The page ignores the body of a GET.
        let (method, path) = match listener.name {
            "page" => ("POST", "/send"),
            "Runtime API" => ("POST", "/2018-06-01/runtime/init/error"),
            _ => (listener.method, listener.path),
        };
        let mut stream = TcpStream::connect(listener.address).await.unwrap();
        let headers = &listener.headers;
        let size = 17 * 1024 * 1024;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {size}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut stream, mut writes) = stream.into_split();
        // A server that refuses the request stops reading.
        tokio::spawn(async move { writes.write_all(&vec![b' '; size]).await });
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        let status = String::from_utf8(answer).unwrap();
        assert!(
            ["HTTP/1.1 400", "HTTP/1.1 403", "HTTP/1.1 413"].contains(&&*status),
            "{}: {status}",
            listener.name
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_server_closes_a_connection_whose_first_head_does_not_come() {
    let all = All::start().await;
    for listener in &all.listeners {
        let mut stream = TcpStream::connect(listener.address).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: loc")
            .await
            .unwrap();
        let since = Instant::now();
        let closed = timeout(2 * HEAD_TIME, stream.read(&mut [0; 1])).await;
        assert!(
            matches!(closed, Ok(Ok(0) | Err(_))),
            "{}: {closed:?}",
            listener.name
        );
        assert!(since.elapsed() >= HEAD_TIME, "{}", listener.name);
    }
}

#[tokio::test(start_paused = true)]
async fn every_server_has_so_many_connections_and_no_more() {
    let all = All::start().await;
    for listener in &all.listeners {
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS {
            silent.push(TcpStream::connect(listener.address).await.unwrap());
        }
        let since = Instant::now();
        let status = listener.ask(listener.method, "localhost", "").await;
        assert_eq!(status, 200, "{}", listener.name);
        let waited = since.elapsed();
        assert!(
            waited >= HEAD_TIME / 2,
            "{}: answered after {waited:?}, beside the others",
            listener.name
        );
    }
}
