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
        const WHY: &str = "the simulation's decoder wants it";
        let Environment { world, process, .. } = &*self.0;
        pause(&self.0).await;
        let ends = world.is_troubled() && world.chance.once_in(8);
        let ending = ends.then(|| world.chance.pick(&Ending::ALL));
        if let Some(ending) = ending {
            world.count(Count::DecoderEndings);
            world.note(process, format_args!("the decoder: {ending:?}"));
        }
        match ending {
            Some(Ending::Retry) => Err(HandlerError::retry(WHY)),
            Some(Ending::GiveUp) => Err(HandlerError::terminal(WHY)),
            Some(Ending::Hang) => std::future::pending().await,
            None => serde_json::from_str(body).terminal(),
        }
    }
}
