//! Consumers that can run as a Lambda function.

use super::Consumer;

/// A complete consumer: it has its key, its handler, and the handler's state. A [`Consumer`] in the phase
/// [`Ready<()>`](super::Ready) implements this, and so does a [`router`](crate::router).
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't run",
    label = "not a complete consumer",
    note = "`Consumer<Ready<App>>` lacks the state that its handler takes as `State<App>`: add `.state(app)`",
    note = "a handler's function is not its consumer: `sqs_once::run(charge::consumer())`",
    note = "a Lambda function runs one consumer; `sqs_once::router` makes one of several",
    note = "a consumer made by hand needs a key, then a handler: `.key(…).handler(…)`"
)]
pub trait Runnable {
    /// Returns the consumer.
    fn into_consumer(self) -> Consumer;
}

impl Runnable for Consumer {
    fn into_consumer(self) -> Consumer {
        self
    }
}
