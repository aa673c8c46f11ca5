//! A decoder that waits for each payload, and sometimes fails or never ends.

use std::sync::Arc;

use sqs_once::body::AsyncDecode;
use sqs_once::extract::Message;
use sqs_once::{HandlerError, ResultExt};

use super::counts::Count;
use super::handler::{Order, pause};
use super::lambda::Environment;

pub(crate) struct SlowDecoder(pub(crate) Arc<Environment>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Retry,
    GiveUp,
    Hang,
}

impl Ending {
    const ALL: [Self; 3] = [Self::Retry, Self::GiveUp, Self::Hang];
}

impl AsyncDecode<Order> for SlowDecoder {
    async fn decode(&self, body: &str, _: &Message) -> Result<Order, HandlerError> {
        pause(&self.0).await;
        disturb(&self.0, "the decoder", Count::DecoderEndings).await?;
        serde_json::from_str(body).terminal()
    }
}

/// Sometimes fails, or never ends.
pub(crate) async fn disturb(
    environment: &Environment,
    who: &str,
    count: Count,
) -> Result<(), HandlerError> {
    const WHY: &str = "the simulation wants it";
    let Environment { world, process, .. } = environment;
    if !world.is_troubled() || !world.chance.once_in(8) {
        return Ok(());
    }
    let ending = world.chance.pick(&Ending::ALL);
    world.count(count);
    world.note(process, format_args!("{who}: {ending:?}"));
    match ending {
        Ending::Retry => Err(HandlerError::retry(WHY)),
        Ending::GiveUp => Err(HandlerError::terminal(WHY)),
        Ending::Hang => std::future::pending().await,
    }
}
