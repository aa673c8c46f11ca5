//! Tests which requests the web page's server answers. `.ci/page.py` tests what its buttons do to the queues.

use crate::support::{DEAD, HttpResponse, QUEUE, http, page_headers, queues, token};
use serde_json::{Value, json};
use sqs_once_local::{
    FaultControls, Faults, Limits, LocalSqs, NewMessage, Page, PageControls, Percent,
    QueueSettings, Story,
};
use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

const FIFO: &str = "orders.fifo";

struct Served {
    sqs: Arc<LocalSqs>,
    faults: FaultControls,
    samples: tempfile::TempDir,
    page: Page,
}

async fn served() -> Served {
    served_for(QUEUE).await
}

/// A page for one of the queues.
async fn served_for(queue: &str) -> Served {
    let story = Story::new(queue, Some(DEAD), Limits::default());
    let mut queues = queues(1);
    queues.create(FIFO, QueueSettings::default()).unwrap();
    queues.observe(story.observer());
    let sqs = Arc::new(LocalSqs::start(queues).await.unwrap());
    let faults = FaultControls::new(Faults {
        seed: 7,
        ..Faults::default()
    });
    let samples = tempfile::tempdir().unwrap();
    let controls = PageControls {
        sqs: Some(Arc::clone(&sqs)),
        samples: Some(samples.path().to_owned()),
        faults: Some(faults.clone()),
    };
    let page = Page::start(story, controls, 0).await.unwrap();
    Served {
        sqs,
        faults,
        samples,
        page,
    }
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
    let faults = r#"{"duplicate": 20, "kill": 0, "drop_response": 0, "slow": 0, "outlive": 0}"#;
    for headers in [json, page_headers("guess")] {
        for (path, body) in [
            ("/send", r#"{"MessageBody": "x"}"#),
            ("/duplicate", r#"{"number": 1}"#),
            ("/redrive", "{}"),
            ("/faults", faults),
        ] {
            let response = http(served.page.address(), "POST", path, &headers, body).await;
            assert_eq!(response.status, 403, "{path}: {}", response.body);
        }
    }
    assert_eq!(served.sqs.queues().len(QUEUE), Ok(1));
    assert!(served.faults.get().duplicate.is_zero());
}

#[tokio::test]
async fn a_message_is_sent_with_its_body_as_it_is() {
    let served = served().await;
    let body = "{\"order_id\": \"<b>ö</b>\"}\n";
    let tenant = json!({"tenant": {"DataType": "String", "StringValue": "acme"}});
    let message = json!({"MessageBody": body, "MessageAttributes": tenant, "MessageGroupId": "a"});
    let answer = post(&served.page, "/send", &message).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let story = served.get_json("/story").await;
    assert_eq!(story["messages"][0]["id"], answer["message_id"]);
    let number = &story["messages"][0]["number"];
    let detail = served.get_json(&format!("/message/{number}")).await;
    assert_eq!(detail["body"], body);
    assert_eq!(detail["attributes"], tenant);
    assert_eq!(detail["group_id"], "a");
    let odd = json!({"MessageBody": "x", "MessageAttributes": {"a": {}}});
    let deduplicated = json!({"MessageBody": "x", "MessageDeduplicationId": "d"});
    for (refused, reason) in [
        (json!({"MessageBody": ""}), "MessageBody"),
        (json!({"no": "body"}), "MessageBody"),
        (odd, "'a'"),
        (deduplicated, "MessageDeduplicationId"),
    ] {
        let answer = post(&served.page, "/send", &refused).await;
        assert_eq!(answer.status, 409, "{}", answer.body);
        assert!(answer.body.contains(reason), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_fifo_queue_refuses_a_deduplication_id_that_it_has_seen_and_gets_a_new_one_by_default() {
    let served = served_for(FIFO).await;
    for (deduplication_id, count) in [
        (json!("d"), 1),
        (json!("d"), 0),
        (json!(null), 1),
        (json!(null), 1),
    ] {
        let message = json!({
            "MessageBody": "x", "MessageGroupId": "a", "MessageDeduplicationId": deduplication_id,
        });
        let answer = post(&served.page, "/send", &message).await.body;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["count"], count, "{message}");
    }
    assert_eq!(served.sqs.queues().len(FIFO), Ok(3));
}

#[tokio::test]
async fn the_messages_of_the_sample_events_are_offered_as_they_are_now() {
    let served = served().await;
    let write = |name: &str, text: &str| fs::write(served.samples.path().join(name), text).unwrap();
    let other = r#"{"detail": "of another service", "Records": []}"#;
    write("b.json", other);
    write("c.json", r#"{"Records": [{"no": "message"}]}"#);
    assert_eq!(served.get_json("/samples").await, json!([]));
    // The first of two ids names the message.
    let body = r#"{"order_id": "o-1", "customer_id": "c-7"}"#;
    let record = json!({
        "messageId": "m-1", "body": body,
        "attributes": {"MessageGroupId": "a", "MessageDeduplicationId": "d"},
        "messageAttributes": {"tenant": {"dataType": "String", "stringValue": "acme"}},
    });
    write("a.json", &json!({"Records": [record]}).to_string());
    write("bodies.jsonl", "{\"amount\": 1}\n{\"amount\": 2}\n");
    let samples = served.get_json("/samples").await;
    let tenant = json!({"tenant": {"DataType": "String", "StringValue": "acme"}});
    let bare = |name: &str, body: &str| json!({"name": name, "body": body, "attributes": {}, "group_id": null, "deduplication_id": null});
    let expected = json!([
        {
            "name": "a.json 1: o-1", "body": body, "attributes": tenant,
            "group_id": "a", "deduplication_id": "d",
        },
        bare("bodies.jsonl 1", r#"{"amount": 1}"#),
        bare("bodies.jsonl 2", r#"{"amount": 2}"#),
    ]);
    assert_eq!(samples, expected);
}

#[tokio::test]
async fn faults_are_shown_and_changed_and_keep_their_seed() {
    let served = served().await;
    let shares = |duplicate: f64, kill: f64| json!({"duplicate": duplicate, "kill": kill, "drop_response": 0.0, "slow": 0.0, "outlive": 0.0});
    let (none, some) = (shares(0.0, 0.0), shares(100.0, 0.5));
    assert_eq!(served.get_json("/story").await["faults"], none);
    let answer = post(&served.page, "/faults", &some).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(served.get_json("/story").await["faults"], some);
    let faults = served.faults.get();
    assert_eq!((faults.seed, faults.duplicate), (7, Percent::ALL));
    let answer = post(&served.page, "/faults", &shares(101.0, 0.0)).await;
    assert_eq!(answer.status, 409);
    let is_named = answer.body.contains("between 0% and 100%");
    assert!(is_named, "{}", answer.body);
}

#[tokio::test]
async fn a_page_without_queues_only_shows() {
    let story = Story::new(QUEUE, None, Limits::default());
    let page = Page::start(story, PageControls::default(), 0).await;
    let page = page.unwrap();
    let html = http(page.address(), "GET", "/", "", "").await.body;
    assert!(html.contains(r#""can_act":false"#));
    for (path, body) in [
        ("/send", json!({"MessageBody": "x"})),
        ("/faults", json!({})),
    ] {
        let answer = post(&page, path, &body).await;
        assert_eq!(answer.status, 404, "{}", answer.body);
    }
    let samples = http(page.address(), "GET", "/samples", "", "").await;
    assert_eq!(samples.body, "[]");
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
