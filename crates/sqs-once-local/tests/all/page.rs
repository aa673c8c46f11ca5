//! Tests which requests the web page's server answers. `.ci/page.py` tests what its buttons do to the queues.

use crate::support::{DEAD, HttpResponse, QUEUE, http, page_headers, queues, token};
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
    let mut queues = queues(1);
    queues.observe(story.observer());
    let sqs = Arc::new(LocalSqs::start(queues).await.unwrap());
    let page = Page::start(story, Some(Arc::clone(&sqs)), 0).await.unwrap();
    Served { sqs, page }
}

async fn post(page: &Page, path: &str, body: &Value) -> HttpResponse {
    let headers = page_headers(&token(page).await);
    http(page.address(), "POST", path, &headers, &body.to_string()).await
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

    fn send(&self, id: &str) {
        let message = NewMessage::new(id, format!("body of {id}"));
        let mut queues = self.sqs.queues();
        queues.send(QUEUE, message, SystemTime::now()).unwrap();
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
async fn nothing_changes_without_the_pages_token() {
    let served = served().await;
    served.send("m-1");
    let json = "Content-Type: application/json\r\n".to_owned();
    for headers in [json, page_headers("guess")] {
        for (path, body) in [
            ("/send", r#"{"body": "x"}"#),
            ("/duplicate", r#"{"number": 1}"#),
            ("/redrive", "{}"),
        ] {
            let response = http(served.page.address(), "POST", path, &headers, body).await;
            assert_eq!(response.status, 403, "{path}: {}", response.body);
        }
    }
    assert_eq!(served.sqs.queues().len(QUEUE), Ok(1));
}

#[tokio::test]
async fn a_message_is_sent_with_its_body_as_it_is() {
    let served = served().await;
    let body = "{\"order_id\": \"<b>ö</b>\"}\n";
    let answer = post(&served.page, "/send", &json!({"body": body})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let story = served.get_json("/story").await;
    assert_eq!(story["messages"][0]["id"], answer["message_id"]);
    let number = &story["messages"][0]["number"];
    let detail = served.get_json(&format!("/message/{number}")).await;
    assert_eq!(detail["body"], body);
    for (body, status) in [(json!({"body": ""}), 409), (json!({"no": "body"}), 422)] {
        let answer = post(&served.page, "/send", &body).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
}

#[tokio::test]
async fn a_page_without_queues_only_shows() {
    let story = Story::new(QUEUE, None, Limits::default());
    let page = Page::start(story, None, 0).await.unwrap();
    let html = http(page.address(), "GET", "/", "", "").await.body;
    assert!(html.contains(r#""can_act":false"#));
    let answer = post(&page, "/send", &json!({"body": "x"})).await;
    assert_eq!(answer.status, 404, "{}", answer.body);
}

#[tokio::test]
async fn a_request_for_changes_is_answered_when_there_is_one_and_only_with_that() {
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
    for (path, status) in [
        ("/message/7", 404),
        ("/nowhere", 404),
        ("/message/x", 400),
        ("/story?since=x", 400),
    ] {
        assert_eq!(served.get(path).await.status, status, "{path}");
    }
    let unknown = post(&served.page, "/duplicate", &json!({"number": 99})).await;
    assert_eq!(unknown.status, 409);
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
