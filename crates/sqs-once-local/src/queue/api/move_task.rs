//! `StartMessageMoveTask`, `ListMessageMoveTasks` and `CancelMessageMoveTask`: a dead-letter queue's redrive.

use super::parameters::{count, optional, text, within};
use super::refused::Refused;
use super::{Answer, Api};
use crate::message::{arn, object};
use crate::millis;
use crate::queue::one::is_fifo;
use crate::queue::queues::Moved;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// How many tasks of a queue to remember.
const MOST_LISTED: usize = 10;

pub(super) struct MoveTask {
    handle: String,
    source: String,
    destination: Option<String>,
    rate: Option<u32>,
    to_move: usize,
    moved: usize,
    started: SystemTime,
    status: Status,
    failure: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Running,
    Completed,
    Cancelled,
    Failed,
}

/// Starts to move the visible messages. Without a rate, moves all of them at once.
pub(super) fn start(api: &Arc<Api>, request: &Value) -> Answer {
    let destination: Option<String> = optional(request, "DestinationArn")?;
    let rate = optional(request, "MaxNumberOfMessagesPerSecond")?;
    let source = existing(api, "SourceArn", request)?;
    let destination = destination.map(|_| existing(api, "DestinationArn", request));
    let destination = destination.transpose()?;
    let rate = within("MaxNumberOfMessagesPerSecond", rate, 1..=500)?;
    if api.queues().sources(&source).is_empty() {
        let text = "Source queue must be configured as a Dead Letter Queue.";
        return Err(Refused::new("InvalidParameterValue", text));
    }
    if let Some(destination) = &destination
        && (*destination == source || is_fifo(destination) != is_fifo(&source))
    {
        let reason = "It must be another queue of the same type as the source queue";
        return Err(Refused::value("DestinationArn", &arn(destination), reason));
    }
    let handle = Uuid::new_v4().to_string();
    let now = SystemTime::now();
    {
        let mut tasks = api.moves();
        let of_source = || tasks.iter().filter(|task| task.source == source);
        if of_source().any(|task| task.status == Status::Running) {
            let text = "There is already a task running. Only one active task is allowed for a source queue arn at a \
                        given time.";
            return Err(Refused::new("UnsupportedOperation", text));
        }
        if of_source().count() >= MOST_LISTED {
            let oldest = tasks.iter().position(|task| task.source == source);
            oldest.map(|oldest| tasks.remove(oldest));
        }
        tasks.push(MoveTask {
            handle: handle.clone(),
            to_move: api.queues().counts(&source, now)?.visible,
            source,
            destination,
            rate,
            moved: 0,
            started: now,
            status: Status::Running,
            failure: None,
        });
    }
    match rate {
        None => {
            step(api, &handle, usize::MAX);
        }
        Some(rate) => {
            let pause = Duration::from_secs(1) / rate;
            tokio::spawn(run(Arc::downgrade(api), handle.clone(), pause));
        }
    }
    Ok(json!({"TaskHandle": handle}))
}

/// Moves messages one by one until none is left or the server is gone.
async fn run(api: Weak<Api>, handle: String, pause: Duration) {
    let mut ticks = tokio::time::interval(pause);
    loop {
        ticks.tick().await;
        let Some(api) = api.upgrade() else { return };
        if !step(&api, &handle, 1) {
            return;
        }
    }
}

/// Moves up to `most` messages. Returns whether there may be more.
fn step(api: &Api, handle: &str, most: usize) -> bool {
    let mut tasks = api.moves();
    let task = tasks.iter_mut().find(|task| task.handle == handle);
    let Some(task) = task.filter(|task| task.status == Status::Running) else {
        return false;
    };
    let to = task.destination.as_deref();
    let now = SystemTime::now();
    let mut new_id = || Uuid::new_v4().to_string();
    let mut queues = api.queues();
    let moved = queues.move_visible(&task.source, to, most, &mut new_id, now);
    let moved = moved.unwrap_or_else(|error| Moved {
        count: 0,
        failure: Some(error.code()),
    });
    task.moved += moved.count;
    task.failure = moved.failure;
    if task.failure.is_some() {
        task.status = Status::Failed;
    } else if moved.count < most {
        task.status = Status::Completed;
    }
    task.status == Status::Running
}

pub(super) fn list(api: &Api, request: &Value) -> Answer {
    let most = optional(request, "MaxResults")?;
    let source = existing(api, "SourceArn", request)?;
    let most = count("MaxResults", most, 1..=10, 1)?;
    let tasks = api.moves();
    let of_source = tasks.iter().rev().filter(|task| task.source == source);
    let results: Vec<_> = of_source.take(most).map(MoveTask::entry).collect();
    Ok(json!({"Results": results}))
}

pub(super) fn cancel(api: &Api, request: &Value) -> Answer {
    let handle = text(request, "TaskHandle")?;
    let mut tasks = api.moves();
    let task = tasks.iter_mut().find(|task| task.handle == handle);
    let unknown = || Refused::new("ResourceNotFoundException", "Task does not exist.");
    let task = task.ok_or_else(unknown)?;
    if task.status != Status::Running {
        let text = "Only a running task can be cancelled.";
        return Err(Refused::new("UnsupportedOperation", text));
    }
    task.status = Status::Cancelled;
    Ok(json!({"ApproximateNumberOfMessagesMoved": task.moved}))
}

/// The name of the queue with this ARN. Refuses an ARN that does not belong to an existing queue.
fn existing(api: &Api, parameter: &str, request: &Value) -> Result<String, Refused> {
    let value = text(request, parameter)?;
    let queues = api.queues();
    let name = queues.names().into_iter().find(|name| arn(name) == value);
    name.map(str::to_owned).ok_or_else(|| {
        let text =
            format!("The resource that you specified for the {parameter} parameter doesn't exist.");
        Refused::new("ResourceNotFoundException", text)
    })
}

impl MoveTask {
    fn entry(&self) -> Value {
        let is_running = self.status == Status::Running;
        let entry = object(json!({
            "TaskHandle": is_running.then_some(&self.handle),
            "Status": self.status,
            "SourceArn": arn(&self.source),
            "DestinationArn": self.destination.as_deref().map(arn),
            "MaxNumberOfMessagesPerSecond": self.rate,
            "ApproximateNumberOfMessagesMoved": self.moved,
            "ApproximateNumberOfMessagesToMove": self.to_move,
            "FailureReason": self.failure,
            "StartedTimestamp": millis(self.started),
        }));
        entry.into()
    }
}
