//! Secrets that the environment names, fetched from a stand-in for AWS Secrets Manager.

use std::process::Output;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sqs_once::key::{KeySecret, Namespace};
use sqs_once::store::{Item, Status};
use sqs_once::testing::TestStore;
use sqs_once::{BusinessKey, HandlerError, Idempotency, Writes};

use crate::support::process::this_program;
use crate::support::wire::{Turn, Wire};

const ARN: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:sqs-once/keys-AbCdEf";
const OTHER: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:sqs-once/next-GhIjKl";
const TEST: &str = "in_a_process_that_handles_a_key";

type Secrets = fn(&Value) -> (u16, Value);

fn error(code: &str) -> (u16, Value) {
    (400, json!({ "__type": code, "message": "no secret" }))
}

fn secrets(request: &Value) -> (u16, Value) {
    match request["SecretId"].as_str() {
        Some(ARN) => (200, json!({ "SecretString": "the secret of these tests" })),
        Some(OTHER) => (200, json!({ "SecretBinary": "BwcHBwcHBwcHBwcHBwcHBw==" })),
        _ => error("ResourceNotFoundException"),
    }
}

/// Runs the process below with these variables and these secrets. Returns its output, and the requests for secrets.
async fn run(secrets: Secrets, variables: &[(&str, &str)]) -> (Output, Vec<String>) {
    let secrets = Wire::always(Turn::By(secrets)).await;
    let output = this_program(module_path!(), TEST)
        .args(["--nocapture"])
        .env("TEST_SECRETS", "1")
        .env("AWS_ENDPOINT_URL_SECRETS_MANAGER", secrets.endpoint())
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env_remove("SQS_ONCE_KEY_SECRET_ARN")
        .env_remove("SQS_ONCE_ALSO_READ")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    (output, secrets.seen())
}

/// The line that the process prints.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    let output = String::from_utf8_lossy(&output.stdout);
    let mut lines = output.lines();
    let said = lines.find_map(|line| line.strip_prefix("said: "));
    said.unwrap().to_owned()
}

/// Prints the ID under which its key is completed, out of three, and whether it knows each of them. If it does not
/// start, prints the reason.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "what is looked at from outside")]
async fn in_a_process_that_handles_a_key() {
    if std::env::var_os("TEST_SECRETS").is_none() {
        return;
    }
    let namespace = || Namespace::new("payments").unwrap();
    let secret = |bytes: &[u8]| KeySecret::new(bytes).unwrap();
    let ids = |key: &str| {
        let id = |of: Namespace| of.item_id(&BusinessKey::new(key).unwrap());
        let string = secret(b"the secret of these tests");
        [
            ("none", id(namespace())),
            ("string", id(namespace().key_secret(string))),
            ("binary", id(namespace().key_secret(secret(&[7; 16])))),
        ]
    };
    let test_store = TestStore::default();
    let store = test_store.memory();
    let idempotency = Idempotency::new("payments").store(test_store.clone());
    if let Err(error) = idempotency.init().await {
        println!("\nsaid: {} {error}", error.setting());
        return;
    }
    let ends_at = || SystemTime::now() + Duration::from_secs(30);
    let work = || async { Ok::<_, HandlerError>(()) };
    idempotency.until(ends_at()).run("o-1", work).await.unwrap();
    let mut all = ids("o-1").into_iter();
    let (own, _) = all.find(|(_, id)| store.get(id).is_some()).unwrap();
    let mut known = Vec::new();
    for (name, id) in ids("o-2") {
        let mut item = Item::new(id, Status::Completed);
        item.expiration = Some(ends_at().into());
        store.put(item);
        let run = idempotency.until(ends_at()).run("o-2", work).await.unwrap();
        if run.is_duplicate() {
            known.push(name);
        }
        for (_, id) in ids("o-2") {
            store.remove(&id);
        }
    }
    // Writes can't look under two IDs.
    if matches!(known[..], [only] if only == own) {
        let work = || async { Ok::<_, HandlerError>(Writes::new()) };
        idempotency.until(ends_at()).run("o-3", work).await.unwrap();
        let is_own = |(name, id): (&str, _)| store.get(&id).is_some() == (name == own);
        assert!(ids("o-3").into_iter().all(is_own));
    }
    println!("\nsaid: {own}, knows {}", known.join(" "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_variables_choose_the_secret_and_what_is_read_besides_and_each_is_fetched_once() {
    for (secret, also, expected) in [
        (None, None, "none, knows none"),
        (None, Some(ARN), "none, knows none string"),
        (Some(ARN), None, "string, knows none string"),
        (Some(ARN), Some("no-secret"), "string, knows none string"),
        (Some(ARN), Some("nothing"), "string, knows string"),
        (Some(ARN), Some(OTHER), "string, knows string binary"),
        (Some(OTHER), Some(ARN), "binary, knows string binary"),
    ] {
        let secret = secret.map(|arn| ("SQS_ONCE_KEY_SECRET_ARN", arn));
        let also = also.map(|arn| ("SQS_ONCE_ALSO_READ", arn));
        let variables: Vec<_> = secret.into_iter().chain(also).collect();
        let (output, requests) = run(secrets, &variables).await;
        assert_eq!(said(&output), expected, "{variables:?}");
        let named = variables.iter().filter(|(_, arn)| arn.starts_with("arn:"));
        assert_eq!(requests, vec!["GetSecretValue"; named.count()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_secret_that_is_missing_denied_empty_or_short_keeps_the_function_from_starting() {
    let unknown = ARN.replace("keys", "unknown");
    let denied: Secrets = |_| error("AccessDeniedException");
    let empty: Secrets = |_| (200, json!({}));
    let short: Secrets = |_| (200, json!({ "SecretString": "hunter2" }));
    // A proxy has wrapped the answer.
    let wrapped: Secrets = |_| (200, json!([{ "SecretString": "hunter2 hunter2 hunter2" }]));
    for (secrets, arn, why) in [
        (secrets as Secrets, &*unknown, "ResourceNotFoundException"),
        (denied, ARN, "AccessDeniedException"),
        (empty, ARN, "is a secret of 0 bytes"),
        (short, ARN, "is a secret of 7 bytes"),
        (wrapped, ARN, "could not be fetched"),
        (secrets, "hunter2-is-no-arn", "the ARN of a secret"),
    ] {
        for variable in ["SQS_ONCE_KEY_SECRET_ARN", "SQS_ONCE_ALSO_READ"] {
            let (output, _) = run(secrets, &[(variable, arn)]).await;
            let said = said(&output);
            assert!(said.starts_with(variable) && said.contains(why), "{said}");
            let all = format!("{output:?}");
            assert!(!all.contains("hunter2"), "{all}");
        }
    }
    let (output, _) = run(secrets, &[("SQS_ONCE_ALSO_READ", "no-secret")]).await;
    let said = said(&output);
    assert!(said.contains("is where its keys are already"), "{said}");
}
