//! Tests that every server refuses requests that a web page could send.

use crate::support::{
    HttpResponse, QUEUE, SQS_JSON, address, http_as, page_headers, queues, raw, token,
};
use sqs_once_local::{
    Limits, LocalDynamoDb, LocalS3, LocalSqs, Page, PageControls, RuntimeApi, Story,
    TableDescription,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// The servers' limits of time and of connections.
const HEAD_TIME: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 256;

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
    sqs: Arc<LocalSqs>,
    page_token: String,
    _others: (Page, RuntimeApi, LocalDynamoDb, LocalS3, tempfile::TempDir),
    listeners: [Listener; 5],
}

impl All {
    async fn start() -> Self {
        let sqs = Arc::new(LocalSqs::start(queues(1)).await.unwrap());
        let story = Story::new(QUEUE, None, Limits::default());
        let controls = PageControls {
            sqs: Some(Arc::clone(&sqs)),
            ..PageControls::default()
        };
        let page = Page::start(story, controls, 0).await.unwrap();
        let page_token = token(&page).await;
        let runtime_api = RuntimeApi::start("orders").await.unwrap();
        let dynamodb = LocalDynamoDb::memory().await.unwrap();
        dynamodb.create_table(&TableDescription::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let s3 = LocalS3::start(folder.path(), 0).await.unwrap();
        let listener = |name, address, path, headers, body| Listener {
            name,
            address,
            method: if name == "S3" { "PUT" } else { "POST" },
            path,
            headers,
            body,
        };
        let aws = |target: &str| {
            format!(
                "{SQS_JSON}X-Amz-Target: {target}\r\nX-Amz-Date: 20260101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 \
                 Credential=a/20260101/r/s/aws4_request, SignedHeaders=host, Signature=0\r\n"
            )
        };
        let (of_page, register) = (page_headers(&page_token), "/2020-01-01/extension/register");
        let send = r#"{"QueueUrl":"orders","MessageBody":"x"}"#;
        let (send_message, scan) = (aws("AmazonSQS.SendMessage"), aws("DynamoDB_20120810.Scan"));
        let at_sqs = address(&sqs.endpoint());
        let (at_dynamodb, at_runtime) = (address(&dynamodb.endpoint()), runtime_api.address());
        let table = r#"{"TableName":"sqs-once"}"#;
        let listeners = [
            listener("page", page.address(), "/send", of_page, send),
            listener("SQS", at_sqs, "/", send_message, send),
            listener("Runtime API", at_runtime, register, aws("-"), "{}"),
            listener("DynamoDB", at_dynamodb, "/", scan, table),
            listener("S3", address(&s3.endpoint()), "/bodies/new", aws("-"), "x"),
        ];
        Self {
            sqs,
            page_token,
            _others: (page, runtime_api, dynamodb, s3, folder),
            listeners,
        }
    }
}

impl Listener {
    async fn ask(&self, host: &str, headers: &str) -> HttpResponse {
        self.ask_for(self.method, self.path, host, headers).await
    }

    /// Sends a request with this host name and these headers. Checks that the answer has no header that allows web pages
    /// to read it.
    async fn ask_for(&self, method: &str, path: &str, host: &str, headers: &str) -> HttpResponse {
        let headers = format!("{}{headers}", self.headers);
        let answer = http_as(host, self.address, method, path, &headers, self.body).await;
        for name in [
            "access-control-allow-origin",
            "access-control-allow-headers",
            "access-control-max-age",
        ] {
            assert_eq!(answer.header(name), None, "{}: {name}", self.name);
        }
        let policy = answer.header("cross-origin-resource-policy");
        assert_eq!(policy, Some("same-origin"));
        answer
    }
}

#[tokio::test]
async fn every_server_listens_on_loopback_and_refuses_what_a_web_page_sends() {
    let all = All::start().await;
    for listener in &all.listeners {
        let (name, address) = (listener.name, listener.address);
        assert!(address.ip().is_loopback(), "{name}");
        let port = address.port();
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
            let answer = listener.ask(&host, "").await;
            assert_eq!(answer.status, 403, "{name} as {host}");
        }
        for headers in [
            "Origin: https://evil.example\r\n".to_owned(),
            "Origin: null\r\n".to_owned(),
            "Origin: http://127.0.0.1:1\r\n".to_owned(),
            format!("Origin: https://{own}\r\n"),
            format!("Origin: http://{own}\r\nOrigin: null\r\n"),
            format!("Host: {own}\r\n"),
            "Host: evil.example\r\n".to_owned(),
            "Sec-Fetch-Site: cross-site\r\n".to_owned(),
            "Sec-Fetch-Site: same-site\r\n".to_owned(),
        ] {
            let page = [
                ("GET", "/"),
                ("GET", "/story"),
                ("GET", "/message/1"),
                ("GET", "/report"),
            ];
            let own_path =
                [listener.method, "GET", "OPTIONS"].map(|method| (method, listener.path));
            for (method, path) in own_path.into_iter().chain(page) {
                let answer = listener.ask_for(method, path, &own, &headers).await;
                let status = answer.status;
                let is_refused = [400, 403].contains(&status);
                assert!(is_refused, "{name} {method} {path} {headers}: {status}");
                assert!(!answer.body.contains(&all.page_token), "{path} {headers}");
            }
        }
        let target = format!(
            "GET http://evil.example/ HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(raw(address, &target).await.status, 403, "{name}");
    }
    assert_eq!(all.sqs.queues().len(QUEUE).unwrap(), 0, "nothing was sent");
}

#[tokio::test]
async fn every_server_answers_programs_of_this_machine() {
    let all = All::start().await;
    for listener in &all.listeners {
        let port = listener.address.port();
        let (own, local) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
        let origin = format!("Origin: http://{local}\r\n");
        for (host, headers) in [
            (&*own, ""),
            (&local, ""),
            ("LOCALHOST", ""),
            ("127.0.0.1", ""),
            ("127.1.2.3", ""),
            (&format!("127.1.2.3:{port}"), ""),
            (&format!("[::1]:{port}"), ""),
            ("[::1]", ""),
            ("127.0.0.1:1", ""),
            (&local, &origin),
            (&own, "Sec-Fetch-Site: same-origin\r\n"),
        ] {
            let answer = listener.ask(host, headers).await;
            assert_eq!(answer.status, 200, "{} as {host} {headers}", listener.name);
        }
    }
}

#[tokio::test]
async fn every_server_limits_the_size_of_a_body() {
    let all = All::start().await;
    for listener in &all.listeners {
        let path = match listener.name {
            "Runtime API" => "/2018-06-01/runtime/init/error",
            _ => listener.path,
        };
        let mut stream = TcpStream::connect(listener.address).await.unwrap();
        let headers = &listener.headers;
        let size = 17 * 1024 * 1024;
        let head = format!(
            "{} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {size}\r\n{headers}\r\n",
            listener.method,
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut stream, mut writes) = stream.into_split();
        // A server that refuses the request stops reading.
        tokio::spawn(async move { writes.write_all(&vec![b' '; size]).await });
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        let status = String::from_utf8(answer).unwrap();
        let is_refused = ["HTTP/1.1 400", "HTTP/1.1 413"].contains(&&*status);
        assert!(is_refused, "{}: {status}", listener.name);
    }
}

#[tokio::test(start_paused = true)]
async fn every_server_closes_a_connection_whose_first_head_does_not_come() {
    let all = All::start().await;
    for listener in &all.listeners {
        let mut stream = TcpStream::connect(listener.address).await.unwrap();
        let head = b"GET / HTTP/1.1\r\nHost: loc";
        stream.write_all(head).await.unwrap();
        let since = Instant::now();
        let closed = timeout(2 * HEAD_TIME, stream.read(&mut [0; 1])).await;
        let is_closed = matches!(closed, Ok(Ok(0) | Err(_)));
        assert!(is_closed, "{}: {closed:?}", listener.name);
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
        let answer = listener.ask("localhost", "").await;
        assert_eq!(answer.status, 200, "{}", listener.name);
        let (name, waited) = (listener.name, since.elapsed());
        let has_waited = waited >= HEAD_TIME / 2;
        assert!(has_waited, "{name}: answered after {waited:?}");
    }
}
