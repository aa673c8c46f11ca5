//! Asks for confirmation before a change that can't be undone.

use crate::print;
use std::io::{self, IsTerminal};
use tokio::sync::oneshot;

/// Why the command changes nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotConfirmed {
    #[error("there is no terminal to ask on: confirm with --yes")]
    NoTerminal,
    #[error("nothing was changed")]
    Declined,
    #[error("the answer can't be read")]
    Read(#[source] io::Error),
}

/// Asks, unless `yes` is set. Accepts only `y` and `yes`.
pub(crate) async fn confirm(question: &str, yes: bool) -> Result<(), NotConfirmed> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(NotConfirmed::NoTerminal);
    }
    print::question(&format!("{question} [y/N] "));
    let (sender, receiver) = oneshot::channel();
    // Not a thread of the runtime: after Ctrl-C, the runtime would wait for it to read a line.
    std::thread::spawn(move || {
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer).map(|_| answer);
        // The receiver is gone after Ctrl-C.
        let _ = sender.send(read);
    });
    let answer = receiver.await.map_err(|_| NotConfirmed::Declined)?;
    let answer = answer.map_err(NotConfirmed::Read)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(NotConfirmed::Declined),
    }
}
