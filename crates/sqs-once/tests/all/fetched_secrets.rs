//! Secrets that the environment names, fetched from a stand-in for AWS Secrets Manager.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::thread;

use serde_json::{Value, json};
use sqs_once::key::{ItemId, KeySecret, Namespace};
use sqs_once::store::Store;
use sqs_once::{BusinessKey, Idempotency, MemoryStore};

use crate::support::process::this_program;

const ARN: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:sqs-once/keys-AbCdEf";
const OTHER: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:sqs-once/next-GhIjKl";
const TEST: &str = "in_a_process_that_handles_a_key";

/// The secret for an ARN.
type Secrets = fn(&str) -> (u16, Value);

fn secrets(arn: &str) -> (u16, Value) {
    match arn {
        ARN => (
            200,
            json!({ "ARN": arn, "SecretString": "the secret of these tests" }),
        ),
        OTHER => (
            200,
            json!({ "ARN": arn, "SecretBinary": "BwcHBwcHBwcHBwcHBwcHBw==" }),
        ),
        _ => (
            400,
            json!({ "__type": "ResourceNotFoundException", "message": "no such secret" }),
        ),
    }
}

fn short(arn: &str) -> (u16, Value) {
    (200, json!({ "ARN": arn, "SecretString": "hunter2" }))
}

fn empty(arn: &str) -> (u16, Value) {
    (200, json!({ "ARN": arn }))
}

/// An answer that a proxy has wrapped.
fn wrapped(arn: &str) -> (u16, Value) {
    (
        200,
        json!([{ "ARN": arn, "SecretString": "hunter2 hunter2 hunter2" }]),
    )
}

fn denied(_: &str) -> (u16, Value) {
    (
        400,
        json!({ "__type": "AccessDeniedException", "Message": "not authorized" }),
    )
}

fn answer(stream: TcpStream, secrets: Secrets) {
    let mut request = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        request.read_line(&mut line).unwrap();
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    request.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let (status, body) = secrets(body["SecretId"].as_str().unwrap());
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.1\r\n");
    let head = format!(
        "{head}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = request.into_inner();
    stream.write_all((head + &body).as_bytes()).unwrap();
}

/// Runs the process below with these variables and these secrets.
fn run(secrets: Secrets, variables: &[(&str, &str)]) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), secrets);
        }
    });
    this_program(module_path!(), TEST)
        .args(["--nocapture"])
        .env("SQS_ONCE_TEST_SECRETS", "1")
        .env("AWS_ENDPOINT_URL_SECRETS_MANAGER", endpoint)
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env_remove("SQS_ONCE_KEY_SECRET_ARN")
        .env_remove("SQS_ONCE_ALSO_READ")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// The line that the process prints.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    let output = String::from_utf8_lossy(&output.stdout);
    let mut lines = output
        .lines()
        .filter_map(|line| line.strip_prefix("said: "));
    lines.next().unwrap().to_owned()
}

/// Prints the ID under which its key is completed, out of three, and whether it knows each of them. If it does not
/// start, prints the reason.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "what is looked at from outside")]
async fn in_a_process_that_handles_a_key() {
    if std::env::var_os("SQS_ONCE_TEST_SECRETS").is_none() {
        return;
    }
    let namespace = || Namespace::new("payments").unwrap();
    let secret = |bytes: &[u8]| KeySecret::new(bytes).unwrap();
    let ids = |key: &str| {
        let key = BusinessKey::new(key).unwrap();
        [
            ("none", namespace().item_id(&key)),
            (
                "string",
                namespace()
                    .key_secret(secret(b"the secret of these tests"))
                    .item_id(&key),
            ),
            (
                "binary",
                namespace().key_secret(secret(&[7; 16])).item_id(&key),
            ),
        ]
    };
    let store = MemoryStore::new();
    let idempotency = Idempotency::new()
        .namespace("payments")
        .store(store.clone());
    if let Err(error) = idempotency.init().await {
        println!("\nsaid: {} {error}", error.variable());
        return;
    }
    let ends_at = || std::time::SystemTime::now() + std::time::Duration::from_secs(30);
    let work = || async { Ok::<_, sqs_once::HandlerError>(()) };
    idempotency.until(ends_at()).run("o-1", work).await.unwrap();
    let mut own = "";
    for (name, id) in ids("o-1") {
        if is_there(&store, id).await {
            own = name;
        }
    }
    let mut known = Vec::new();
    for (name, id) in ids("o-2") {
        let mut item = completed(&store).await;
        item.id = id.clone();
        store.put(item);
        let run = idempotency.until(ends_at()).run("o-2", work).await.unwrap();
        if run.is_duplicate() {
            known.push(name);
        }
        for (_, id) in ids("o-2") {
            store.remove(&id);
        }
    }
    println!("\nsaid: {own}, knows {}", known.join(" "));
}

async fn is_there(store: &MemoryStore, id: ItemId) -> bool {
    store.read(&[id]).await.remove(0).unwrap().is_some()
}

/// An item that is completed.
async fn completed(store: &MemoryStore) -> sqs_once::store::Item {
    let idempotency = Idempotency::new()
        .namespace("other")
        .also_read_nothing()
        .store(store.clone());
    let ends_at = std::time::SystemTime::now() + std::time::Duration::from_secs(30);
    let work = || async { Ok::<_, sqs_once::HandlerError>(()) };
    let secret = KeySecret::new([9; 32]).unwrap();
    let idempotency = idempotency.key_secret(secret.clone());
    idempotency.until(ends_at).run("x", work).await.unwrap();
    let namespace = Namespace::new("other").unwrap().key_secret(secret);
    let id = namespace.item_id(&BusinessKey::new("x").unwrap());
    store.read(&[id]).await.remove(0).unwrap().unwrap()
}

#[test]
fn the_variables_choose_the_secret_and_what_is_read_besides() {
    const SECRET: &str = "SQS_ONCE_KEY_SECRET_ARN";
    const ALSO: &str = "SQS_ONCE_ALSO_READ";
    for (variables, expected) in [
        (&[][..], "none, knows none"),
        (&[(ALSO, ARN)], "none, knows none string"),
        (&[(SECRET, ARN)], "string, knows none string"),
        (
            &[(SECRET, ARN), (ALSO, "no-secret")],
            "string, knows none string",
        ),
        (&[(SECRET, ARN), (ALSO, "nothing")], "string, knows string"),
        (
            &[(SECRET, ARN), (ALSO, OTHER)],
            "string, knows string binary",
        ),
        (
            &[(SECRET, OTHER), (ALSO, ARN)],
            "binary, knows string binary",
        ),
    ] {
        assert_eq!(said(&run(secrets, variables)), expected, "{variables:?}");
    }
}

#[test]
fn a_secret_that_is_missing_denied_empty_or_short_keeps_the_function_from_starting() {
    let unknown = ARN.replace("keys", "unknown");
    for (secrets, arn, why) in [
        (secrets as Secrets, &*unknown, "ResourceNotFoundException"),
        (denied, ARN, "AccessDeniedException"),
        (empty, ARN, "is a secret of 0 bytes"),
        (short, ARN, "is a secret of 7 bytes"),
        (wrapped, ARN, "could not be fetched"),
        (secrets, "hunter2-is-no-arn", "the ARN of a secret"),
    ] {
        for variable in ["SQS_ONCE_KEY_SECRET_ARN", "SQS_ONCE_ALSO_READ"] {
            let output = run(secrets, &[(variable, arn)]);
            let said = said(&output);
            assert!(said.starts_with(variable) && said.contains(why), "{said}");
            // The output may contain the setting, but never the secret.
            let all = format!("{output:?}").replace("hunter2-is-no-arn", "");
            assert!(!all.contains("hunter2"), "{all}");
        }
    }
    let said = said(&run(secrets, &[("SQS_ONCE_ALSO_READ", "no-secret")]));
    assert!(said.contains("is where its keys are already"), "{said}");
}
