//! A layer around the handlers. It passes each record on, and sometimes ends it, before or after the handler.

use std::sync::Arc;

use sqs_once::HandlerError;
use sqs_once::extract::RecordParts;
use sqs_once::handler::{Done, Next};

use super::counts::Count;
use super::handler::{INVOCATION, pause};
use super::ids::key_of;
use super::lambda::Environment;
use super::mutant::Mutant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    RetryBefore,
    GiveUpBefore,
    RetryAfter,
}

impl Ending {
    const ALL: [Self; 3] = [Self::RetryBefore, Self::GiveUpBefore, Self::RetryAfter];
}

pub(crate) async fn layer(
    environment: Arc<Environment>,
    record: RecordParts,
    next: Next,
) -> Result<Done, HandlerError> {
    const WHY: &str = "the simulation's layer wants it";
    let Environment { world, process, .. } = &*environment;
    let (key, fence) = (key_of(record.item_id()), record.attempt().fence());
    world.witness().uses(process, key, fence);
    pause(&environment).await;
    let ends = world.is_troubled() && world.chance.once_in(8);
    let ending = ends.then(|| world.chance.pick(&Ending::ALL));
    if let Some(ending) = ending {
        world.count(Count::LayerEndings);
        world.note(process, format_args!("the layer of k{key}: {ending:?}"));
    }
    match ending {
        Some(Ending::RetryBefore) => return Err(HandlerError::retry(WHY)),
        Some(Ending::GiveUpBefore) => return Err(HandlerError::terminal(WHY)),
        Some(Ending::RetryAfter) | None => {}
    }
    let invocation = record.message().system_attribute(INVOCATION);
    let invocation = invocation.and_then(|text| text.parse().ok());
    match next.run().await {
        Ok(_) if ending.is_some() => {
            world
                .witness()
                .overruled(invocation.unwrap_or_default(), key);
            Err(HandlerError::retry(WHY))
        }
        Err(_) if world.mutant() == Some(Mutant::LayerHidesFailure) => Ok(Done::default()),
        outcome => outcome,
    }
}
