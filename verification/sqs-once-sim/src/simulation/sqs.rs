//! The part of SQS's API that the consumer uses: dead letters, visibility timeouts, and a queue's attributes.

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_sdk_sqs::Client;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use serde_json::{Value, json};
use sqs_once_judge::Event;
use tokio::time::Instant;

use super::counts::Count;
use super::mutant::Mutant;
use super::network::Broken;
use super::process::Process;
use super::queue::{Message, Place};
use super::wire::{self, answer};
use super::world::World;

pub(crate) fn queue_url(name: &str) -> String {
    format!("https://sqs.eu-central-1.amazonaws.com/123456789012/{name}")
}

/// A process's SQS client.
pub(crate) fn client(world: &Arc<World>, process: &Process) -> Client {
    let (world, process) = (Arc::clone(world), process.clone());
    let serve = move |request| serve(Arc::clone(&world), process.clone(), request);
    let (timeout, retries) = (Duration::from_secs(1), RetryConfig::disabled());
    Client::new(&wire::settings(serve, timeout, None, retries))
}

async fn serve(
    world: Arc<World>,
    process: Process,
    request: HttpRequest,
) -> Result<HttpResponse, ConnectorError> {
    let operation = wire::operation(&request);
    let body = wire::body(&request);
    type Do = fn(&World, &Value) -> Value;
    let (name, act): (_, Do) = match operation {
        "SendMessage" => ("sends a dead letter", send),
        "GetQueueAttributes" => ("asks the queue", attributes),
        _ => ("keeps messages away", change_visibility),
    };
    let is_send = operation == "SendMessage";
    let carry_out = {
        let world = Arc::clone(&world);
        move || act(&world, &body)
    };
    if is_send && world.mutant() == Some(Mutant::AcknowledgeBeforeSend) {
        let on_its_way = async move { world.network.pass(&process, name, carry_out).await };
        tokio::spawn(on_its_way);
        return Ok(answer(200, json!({ "MessageId": "copy" })));
    }
    match world.network.pass(&process, name, carry_out).await {
        Ok(body) => Ok(answer(200, body)),
        Err(Broken::Connection) => Err(wire::broken()),
        Err(Broken::Throttled | Broken::Conflict) => {
            let throttled = json!({ "__type": "com.amazonaws.sqs#RequestThrottled" });
            Ok(answer(400, throttled))
        }
        Err(Broken::Failed) => Ok(answer(500, json!({}))),
    }
}

fn attributes(world: &World, _: &Value) -> Value {
    let policy = json!({ "maxReceiveCount": world.plan.max_receives }).to_string();
    json!({ "Attributes": { "MessageRetentionPeriod": "1209600", "RedrivePolicy": policy } })
}

/// Adds the consumer's copy of a message as a dead letter.
fn send(world: &World, request: &Value) -> Value {
    let of = &request["MessageAttributes"]["sqs-once-message-id"]["StringValue"];
    let id = of
        .as_str()
        .and_then(|id| id.strip_prefix('m')?.parse().ok());
    let original: usize = id.unwrap_or_else(|| unreachable!("{request} names no message"));
    let mut queue = world.queue();
    let Message {
        key,
        payload,
        group,
        ..
    } = queue.messages[original];
    let what = (key, payload);
    let copy = queue.send(what, group, Instant::now(), Place::DeadLetters);
    drop(queue);
    world.sent(copy);
    let mut witness = world.witness();
    witness.judge(Event::Left(copy));
    witness.judge(Event::Copied(original));
    drop(witness);
    world.count(Count::SentToDlq);
    world.note(
        "sqs",
        format_args!("m{copy}, a copy of m{original}, is in the DLQ"),
    );
    json!({ "MessageId": format!("m{copy}") })
}

fn change_visibility(world: &World, request: &Value) -> Value {
    let mut done = Vec::new();
    for entry in request["Entries"].as_array().into_iter().flatten() {
        let handle = entry["ReceiptHandle"]
            .as_str()
            .and_then(|handle| handle.split_once('.'));
        let parsed = handle
            .and_then(|(message, receipt)| Some((message.parse().ok()?, receipt.parse().ok()?)));
        let (message, receipt) =
            parsed.unwrap_or_else(|| unreachable!("{request} names no delivery"));
        let away = Duration::from_secs(entry["VisibilityTimeout"].as_u64().unwrap_or_default());
        if world
            .queue()
            .change_visibility(message, receipt, Instant::now() + away)
        {
            world.count(Count::Postponed);
            world.note("sqs", format_args!("m{message} stays away for {away:?}"));
        }
        done.push(json!({ "Id": entry["Id"] }));
    }
    json!({ "Successful": done, "Failed": [] })
}
