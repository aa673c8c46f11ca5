//! Ctrl-C: the command finishes its current step and releases the messages that it holds.

use crate::print;
use tokio::sync::watch;

pub(super) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Starts listening. The second Ctrl-C ends the process at once.
    pub(super) fn listen() -> Self {
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            let again = async {
                if tokio::signal::ctrl_c().await.is_ok() {
                    std::process::exit(1);
                }
            };
            let stop = async {
                print::note(
                    "stopping and releasing the messages; press Ctrl-C again to stop at once",
                );
                sender.send_replace(true);
            };
            // Listen for the second one before reporting the first, so that none is lost in between.
            tokio::join!(biased; again, stop);
        });
        Self(receiver)
    }

    pub(super) fn is_here(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the first Ctrl-C.
    pub(super) async fn wait(&self) {
        if self.0.clone().wait_for(|is_here| *is_here).await.is_err() {
            // The listener has ended without a Ctrl-C.
            std::future::pending().await
        }
    }
}
