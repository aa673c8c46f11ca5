//! Graceful shutdown: in-flight events are answered before the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use tracing::{info, warn};

/// Counts in-flight events. An event is in flight until its answer was sent.
#[derive(Clone, Default)]
pub(super) struct Shutdown {
    in_flight: watch::Sender<usize>,
    is_requested: Arc<AtomicBool>,
}

impl Shutdown {
    /// Counts an event until the returned guard is dropped. `None` after a signal.
    pub(super) fn begin(&self) -> Option<InFlight> {
        if self.is_requested.load(Ordering::SeqCst) {
            return None;
        }
        self.in_flight.send_modify(|count| *count += 1);
        Some(InFlight(self.in_flight.clone()))
    }

    /// Returns after one signal when no event is in flight, or at once after a second signal.
    pub(super) async fn requested_and_idle(&self) {
        let mut requests = match stop_requests() {
            Ok(requests) => requests,
            Err(error) => {
                warn!(%error, "no signal can be received: shutdown won't be graceful");
                return std::future::pending().await;
            }
        };
        next(&mut requests).await;
        self.is_requested.store(true, Ordering::SeqCst);
        info!("asked to end: finishing in-flight events");
        let mut in_flight = self.in_flight.subscribe();
        tokio::select! {
            // Fails only without a sender, and `self` holds the sender.
            _ = in_flight.wait_for(|count| *count == 0) => {}
            () = next(&mut requests) => warn!("asked to end again: not waiting any longer"),
        }
    }
}

/// The signals that ask the process to end. Keep them until shutdown: new values miss earlier signals.
#[cfg(unix)]
type StopRequests = [tokio::signal::unix::Signal; 2];

#[cfg(unix)]
fn stop_requests() -> std::io::Result<StopRequests> {
    use tokio::signal::unix::{SignalKind, signal};
    Ok([
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    ])
}

#[cfg(unix)]
async fn next([terminate, interrupt]: &mut StopRequests) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Functions run on Windows only in tests and local runs. Ctrl-C is the only request there.
#[cfg(windows)]
type StopRequests = tokio::signal::windows::CtrlC;

#[cfg(windows)]
fn stop_requests() -> std::io::Result<StopRequests> {
    tokio::signal::windows::ctrl_c()
}

#[cfg(windows)]
async fn next(ctrl_c: &mut StopRequests) {
    ctrl_c.recv().await;
}

pub(super) struct InFlight(watch::Sender<usize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
