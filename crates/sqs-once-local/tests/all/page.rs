//! Tests which requests the web page's server answers, and what its buttons do to the queues.

use crate::support::{DEAD, HttpResponse, QUEUE, http, queues, raw};
use serde_json::{Value, json};
use sqs_once_local::{Limits, LocalSqs, NewMessage, Page, PageError, Story};
use std::sync::Arc;
use std::time::SystemTime;

struct Served {
    sqs: Arc<LocalSqs>,
    page: Page,
}

async fn served() -> Served {
    let story = Story::new(QUEUE, Some(DEAD), Limits::default());
    let queues = queues(&story);
    let sqs = Arc::new(LocalSqs::start(queues).await.unwrap());
    let page = Page::start(story, Some(Arc::clone(&sqs)), 0).await.unwrap();
    Served { sqs, page }
}

impl Served {
    async fn get(&self, path: &str) -> HttpResponse {
        http(self.page.address(), "GET", path, "", "").await
    }

    async fn get_json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status, 200, "{}", response.body);
        serde_json::from_str(&response.body).unwrap()
    }

    /// The token in the page.
    async fn token(&self) -> String {
        let html = self.get("/").await.body;
        let (_, token) = html.split_once(r#""token":""#).unwrap();
        token.split_once('"').unwrap().0.to_owned()
    }

    async fn post(&self, path: &str, body: &Value) -> HttpResponse {
        let token = self.token().await;
        let headers = format!("X-Sqs-Once-Token: {token}\r\nContent-Type: application/json\r\n");
        http(
            self.page.address(),
            "POST",
            path,
            &headers,
            &body.to_string(),
        )
        .await
    }

    fn send(&self, id: &str) {
        let message = NewMessage::new(id, format!("body of {id}"));
        let mut queues = self.sqs.queues();
        queues.send(QUEUE, message, SystemTime::now()).unwrap();
    }

    fn ids(&self, queue: &str) -> Vec<String> {
        let queues = self.sqs.queues();
        let messages = queues.messages(queue).unwrap();
        messages.map(|message| message.id.clone()).collect()
    }
}

#[tokio::test]
async fn the_page_comes_with_a_policy_that_lets_nothing_else_in() {
    let served = served().await;
    let page = served.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "connect-src 'self'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let nonce = |html: &str| html.split("nonce=\"").nth(1).unwrap()[..32].to_owned();
    let again = served.get("/").await;
    assert_ne!(nonce(&page.body), nonce(&again.body), "a nonce serves once");
}

#[tokio::test]
async fn nobody_asks_under_another_name_or_from_another_site() {
    let served = served().await;
    let (address, token) = (served.page.address(), served.token().await);
    let port = address.port();
    let own = format!("Host: 127.0.0.1:{port}\r\n");
    let refused = [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
        format!("{own}Host: evil.example\r\n"),
        format!("{own}Origin: https://evil.example\r\n"),
        format!("{own}Origin: null\r\n"),
        format!("{own}Origin: http://127.0.0.1:1\r\n"),
        format!("{own}Origin: https://127.0.0.1:{port}\r\n"),
        format!("{own}Sec-Fetch-Site: cross-site\r\n"),
        format!("{own}Sec-Fetch-Site: same-site\r\n"),
    ];
    let body = r#"{"body": "x"}"#;
    for headers in refused {
        for path in ["/", "/story", "/message/1", "/report"] {
            let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
            let response = raw(address, &request).await;
            assert!([400, 403].contains(&response.status), "{path} {headers}");
            assert!(!response.body.contains(&token), "{headers}");
        }
        let request = format!(
            "POST /send HTTP/1.1\r\nConnection: close\r\nX-Sqs-Once-Token: {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        let response = raw(address, &request).await;
        assert!([400, 403].contains(&response.status), "{headers}");
    }
    assert_eq!(served.ids(QUEUE), [""; 0]);
    for headers in [
        format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"),
        format!("{own}Sec-Fetch-Site: same-origin\r\n"),
    ] {
        let request = format!("GET /story HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        assert_eq!(raw(address, &request).await.status, 200, "{headers}");
    }
}

#[tokio::test]
async fn nothing_changes_without_the_pages_token() {
    let served = served().await;
    served.send("m-1");
    let json = "Content-Type: application/json\r\n";
    for headers in [
        json.to_owned(),
        format!("{json}X-Sqs-Once-Token: guess\r\n"),
    ] {
        for (path, body) in [
            ("/send", r#"{"body": "x"}"#),
            ("/duplicate", r#"{"number": 1}"#),
            ("/redrive", "{}"),
        ] {
            let response = http(served.page.address(), "POST", path, &headers, body).await;
            assert_eq!(response.status, 403, "{path}: {}", response.body);
        }
    }
    assert_eq!(served.ids(QUEUE), ["m-1"]);
}

#[tokio::test]
async fn a_message_is_sent_with_its_body_as_it_is() {
    let served = served().await;
    let body = "{\"order_id\": \"<b>ö</b>\"}\n";
    let answer = served.post("/send", &json!({"body": body})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let id = serde_json::from_str::<Value>(&answer.body).unwrap()["message_id"].clone();
    let story = served.get_json("/story").await;
    assert_eq!(story["messages"][0]["id"], id);
    let number = &story["messages"][0]["number"];
    assert_eq!(
        served.get_json(&format!("/message/{number}")).await["body"],
        body
    );
    let empty = served.post("/send", &json!({"body": ""})).await;
    assert_eq!(empty.status, 409, "{}", empty.body);
    assert_eq!(
        served.post("/send", &json!({"no": "body"})).await.status,
        422
    );
}

#[tokio::test]
async fn a_duplicate_has_the_id_and_the_body_of_its_message() {
    let served = served().await;
    served.send("m-1");
    let story = served.get_json("/story").await;
    let number = &story["messages"][0]["number"];
    let answer = served.post("/duplicate", &json!({"number": number})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(served.ids(QUEUE), ["m-1", "m-1"]);
    let bodies = served
        .sqs
        .queues()
        .messages(QUEUE)
        .unwrap()
        .map(|one| one.body.clone())
        .collect::<Vec<_>>();
    assert_eq!(bodies, ["body of m-1", "body of m-1"]);
    let unknown = served.post("/duplicate", &json!({"number": 99})).await;
    assert_eq!(unknown.status, 409);
}

#[tokio::test]
async fn a_redrive_moves_what_is_in_the_dead_letter_queue_back() {
    let served = served().await;
    {
        let mut queues = served.sqs.queues();
        let letter = NewMessage::new("letter", "{}");
        queues.send(DEAD, letter, SystemTime::now()).unwrap();
    }
    let answer = served.post("/redrive", &json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(
        serde_json::from_str::<Value>(&answer.body).unwrap()["count"],
        1
    );
    assert_eq!(served.ids(DEAD), [""; 0]);
    assert_eq!(served.ids(QUEUE).len(), 1);
}

#[tokio::test]
async fn a_page_without_queues_only_shows() {
    let story = Story::new(QUEUE, None, Limits::default());
    let page = Page::start(story, None, 0).await.unwrap();
    let html = http(page.address(), "GET", "/", "", "").await.body;
    assert!(html.contains(r#""can_act":false"#));
    let (_, token) = html.split_once(r#""token":""#).unwrap();
    let token = token.split_once('"').unwrap().0;
    let headers = format!("X-Sqs-Once-Token: {token}\r\nContent-Type: application/json\r\n");
    let answer = http(
        page.address(),
        "POST",
        "/send",
        &headers,
        r#"{"body": "x"}"#,
    )
    .await;
    assert_eq!(answer.status, 404, "{}", answer.body);
}

#[tokio::test]
async fn who_asks_for_news_is_answered_when_there_is_some_and_only_with_that() {
    let served = served().await;
    served.send("m-1");
    let first = served.get_json("/story").await;
    assert_eq!(first["reset"], true);
    let (since, run) = (&first["sequence"], first["run"].as_str().unwrap());
    let path = format!("/story?since={since}&run={run}");
    let (news, ()) = tokio::join!(served.get_json(&path), async {
        served.send("m-2");
    });
    assert_eq!(news["reset"], false);
    let messages = news["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["id"], "m-2");
    assert_eq!(news["function"], Value::Null);
    // A position in the story of another run has no meaning in this one.
    let other = served.get_json("/story?since=1000000&run=another").await;
    assert_eq!(other["reset"], true);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let served = served().await;
    assert_eq!(served.get("/message/7").await.status, 404);
    assert_eq!(served.get("/nowhere").await.status, 404);
    assert_eq!(served.get("/message/x").await.status, 400);
    assert_eq!(served.get("/story?since=x").await.status, 400);
}

#[tokio::test]
async fn the_report_is_offered_as_a_file() {
    let served = served().await;
    served.send("m-1");
    let report = served.get("/report").await;
    let disposition = report.header("content-disposition").unwrap();
    assert!(disposition.starts_with("attachment"), "{disposition}");
    assert!(report.body.contains("body of m-1"));
    assert!(!report.body.contains("\"token\""), "nothing to act with");
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_names_it() {
    let served = served().await;
    let port = served.page.address().port();
    let story = Story::new(QUEUE, None, Limits::default());
    let Err(error) = Page::start(story, None, port).await else {
        panic!("two pages on one port");
    };
    assert!(matches!(error, PageError::Listen { .. }));
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}
