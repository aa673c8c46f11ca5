//! Ctrl-C: what is under way is finished, and what is held is put back.

use crate::print;
use tokio::sync::watch;

pub(super) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens from now on. The second Ctrl-C ends the process at once.
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
                print::note("stopping: messages are put back (once more to stop at once)");
                sender.send_replace(true);
            };
            // Listens before it says so, or a Ctrl-C in between would be lost.
            tokio::join!(biased; again, stop);
        });
        Self(receiver)
    }

    pub(super) fn is_here(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for it.
    pub(super) async fn wait(&self) {
        if self.0.clone().wait_for(|is_here| *is_here).await.is_err() {
            // Nobody listens.
            std::future::pending().await
        }
    }
}
