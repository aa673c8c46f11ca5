//! Waits. No other part of the command sleeps, and every wait has a limit.

use super::error::VerifyError;
use crate::interrupt::Interrupt;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Waits that end early when the user interrupts the run.
pub(super) struct Waits<'a> {
    pub(super) interrupt: &'a Interrupt,
}

impl Waits<'_> {
    /// Fails after Ctrl-C.
    pub(super) fn go_on(&self) -> Result<(), VerifyError> {
        match self.interrupt.is_here() {
            true => Err(VerifyError::Interrupted),
            false => Ok(()),
        }
    }

    /// Looks until there is a result, and pauses in between. It never abandons a look, which may create something.
    ///
    /// # Errors
    /// [`VerifyError::TimedOut`] after `limit`, [`VerifyError::Interrupted`] after Ctrl-C, or the error of a look.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        limit: Duration,
        pause: Duration,
        mut look: impl AsyncFnMut() -> Result<Option<T>, VerifyError>,
    ) -> Result<T, VerifyError> {
        let end = Instant::now() + limit;
        loop {
            self.go_on()?;
            if let Some(found) = look().await? {
                return Ok(found);
            }
            if Instant::now() + pause > end {
                return Err(VerifyError::TimedOut {
                    what: what.to_owned(),
                    limit,
                });
            }
            self.pause(pause).await?;
        }
    }

    /// Pauses.
    pub(super) async fn pause(&self, time: Duration) -> Result<(), VerifyError> {
        tokio::select! {
            () = sleep(time) => Ok(()),
            () = self.interrupt.wait() => Err(VerifyError::Interrupted),
        }
    }

    /// Runs work that creates no resource, and abandons it after Ctrl-C.
    pub(super) async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, VerifyError> {
        tokio::select! {
            done = work => Ok(done),
            () = self.interrupt.wait() => Err(VerifyError::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_the_result_of_the_look_that_has_one() {
        let interrupt = &Interrupt::never();
        let waits = Waits { interrupt };
        let mut looks = 0;
        let found = waits.until("a result", 10 * SECOND, SECOND, async || {
            looks += 1;
            Ok((looks == 3).then_some("found"))
        });
        assert_eq!(found.await.unwrap(), "found");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_without_a_result_ends_at_its_limit_and_names_what_it_waited_for() {
        let interrupt = &Interrupt::never();
        let waits = Waits { interrupt };
        let started = Instant::now();
        let nothing = waits.until::<()>("the table", 10 * SECOND, 3 * SECOND, async || Ok(None));
        let error = nothing.await.unwrap_err();
        assert_eq!(error.to_string(), "the table: not within 10s");
        assert!(started.elapsed() <= 10 * SECOND);
    }
}
