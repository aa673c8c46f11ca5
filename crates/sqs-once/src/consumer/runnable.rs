//! What can run as a Lambda function.

use std::sync::Arc;

use super::builder::Handles;
use super::handler::BatchHandler;
use super::{Consumer, Handler, Router};

/// What a Lambda function can run: a [`Consumer`], a [`Handler`], a [`BatchHandler`](crate::BatchHandler) or a [`Router`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't run",
    label = "neither a consumer nor a handler",
    note = "a function is not its handler: `sqs_once::run(charge::handler())`",
    note = "a Lambda function runs one consumer; `sqs_once::Router` makes one of several handlers",
    note = "a handler made by hand needs a key, then a function: `.key(…).call(…)`"
)]
pub trait Runnable {
    /// Returns a consumer that runs this.
    fn into_consumer(self) -> Consumer;
}

impl Runnable for Consumer {
    fn into_consumer(self) -> Consumer {
        self
    }
}

impl Runnable for Handler {
    fn into_consumer(self) -> Consumer {
        Consumer::of(Handles::One(Box::new(self.into())))
    }
}

impl Runnable for BatchHandler {
    fn into_consumer(self) -> Consumer {
        Consumer::of(Handles::One(Box::new(self.into())))
    }
}

impl Runnable for Router {
    fn into_consumer(self) -> Consumer {
        Consumer::of(Handles::Routes(Arc::new(self)))
    }
}
