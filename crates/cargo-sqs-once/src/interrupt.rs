//! Ctrl-C: the command finishes its current step and gives back what it holds.

use crate::print;
use tokio::sync::watch;

pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Starts listening. The first Ctrl-C shows the note, and the second one ends the process at once.
    pub(crate) fn listen(note: &'static str) -> Self {
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
                print::note(note);
                sender.send_replace(true);
            };
            // Listen for the second one before reporting the first, so that none is lost in between.
            tokio::join!(biased; again, stop);
        });
        Self(receiver)
    }

    pub(crate) fn is_here(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the first Ctrl-C.
    pub(crate) async fn wait(&self) {
        if self.0.clone().wait_for(|is_here| *is_here).await.is_err() {
            // The listener has ended without a Ctrl-C.
            std::future::pending().await
        }
    }
}
