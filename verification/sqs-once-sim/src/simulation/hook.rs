//! The user's hooks, which may be slow, fail, or never end.

use std::sync::Arc;

use sqs_once::HandlerError;
use sqs_once::extract::RecordEnd;
use sqs_once_judge::Event;

use super::counts::Count;
use super::decoder::disturb;
use super::handler::pause;
use super::lambda::Environment;
use super::plan::Payloads;
use super::property::Property;

/// The number of the message.
fn message(end: &RecordEnd) -> usize {
    let number = end.message().id().trim_start_matches('m').parse();
    number.unwrap_or_default()
}

/// The hook of a success or a duplicate.
pub(crate) async fn on_done(
    environment: Arc<Environment>,
    end: RecordEnd,
) -> Result<(), HandlerError> {
    let world = &environment.world;
    world.count(Count::Hooks);
    pause(&environment).await;
    disturb(&environment, "the hook", Count::HookEndings).await?;
    world.witness().judge(Event::Hooked(message(&end)));
    Ok(())
}

pub(crate) async fn on_failure(
    environment: Arc<Environment>,
    end: RecordEnd,
) -> Result<(), HandlerError> {
    let Environment { world, process, .. } = &*environment;
    let is_mismatch = |reason: &str| reason.starts_with("payload mismatch");
    if end.reason().is_some_and(is_mismatch) {
        world.count(Count::Mismatches);
        // Otherwise all messages with a key have the same payload, up to a field that the handler ignores.
        if world.plan.payloads != Payloads::Different {
            let what = format!("{process} found another payload in {}", end.message().id());
            world.witness().violated(Property::SchemesDiffer, what);
        }
    }
    if end.is_acknowledged() {
        let acknowledged = Event::Acknowledged(message(&end));
        world.witness().judge(acknowledged);
    }
    if world.plan.has_hooks {
        pause(&environment).await;
        disturb(&environment, "the hook of a failure", Count::HookEndings).await?;
    }
    Ok(())
}
