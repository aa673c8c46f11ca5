//! Asks for confirmation before a change that can't be undone.

use crate::error::INTERRUPTED;
use crate::interrupt::Interrupt;
use crate::print;
use anyhow::{Context, Result, bail};
use std::io::{self, IsTerminal};
use tokio::sync::oneshot;

const DECLINED: &str = "nothing was changed";

/// Asks, unless `yes` is set. Accepts only `y` and `yes`.
pub(crate) async fn confirm(question: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!("there is no terminal to ask on: confirm with --yes");
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
    let answer = receiver.await.ok().context(DECLINED)?;
    let answer = answer.context("the answer can't be read")?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!(DECLINED),
    }
}

/// Asks, unless `yes` is set or Ctrl-C comes first.
pub(crate) async fn ask(question: &str, yes: bool, interrupt: &Interrupt) -> Result<()> {
    tokio::select! {
        answer = confirm(question, yes) => answer,
        () = interrupt.wait() => bail!(INTERRUPTED),
    }
}
