//! Rebuilds the function on every change and switches the poller to the new binary.

use super::watch::Watch;
use crate::error::INTERRUPTED;
use crate::launch::Subject;
use crate::print::{self, Style};
use anyhow::{Context, Result, bail};
use sqs_once_local::{Launch, PollerControls};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;

/// How often to check the files.
const LOOK: Duration = Duration::from_millis(300);

pub(crate) struct Builder {
    subject: Arc<Subject>,
    quiet: bool,
    executable: PathBuf,
    /// When the build of the executable began.
    since: SystemTime,
    /// The folder with the copies of the binary that run.
    folder: PathBuf,
    copies: AtomicU32,
}

impl Builder {
    pub(crate) fn new(
        subject: &Arc<Subject>,
        quiet: bool,
        (executable, since): (PathBuf, SystemTime),
    ) -> Self {
        let folder = subject.workspace.running();
        // Left over from an earlier run. The lock on the database ensures that no other process uses it.
        let _ = std::fs::remove_dir_all(&folder);
        Self {
            subject: Arc::clone(subject),
            quiet,
            executable,
            since,
            folder,
            copies: AtomicU32::new(0),
        }
    }

    /// Points `launch` at a copy of the binary, because the next build may overwrite the original at any time.
    pub(crate) fn copied(&self, launch: Launch) -> Result<Launch> {
        let number = self.copies.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(number.to_string());
        let copy = folder.join(self.executable.file_name().unwrap_or_default());
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::copy(&self.executable, &copy))
            .with_context(|| format!("the built function can't be copied to {}", copy.display()))?;
        Ok(launch.binary(copy))
    }

    /// Builds whenever a source file has changed. If the build fails, the current binary keeps running.
    pub(crate) async fn on_change(self, launch: Launch, controls: PollerControls) {
        let workspace = &self.subject.workspace;
        let mut sources = Watch::new(workspace.manifests(), self.since);
        sources.add_sources(&self.executable, self.since);
        // Cargo itself writes this file.
        let lock = || Watch::new([workspace.root().join("Cargo.lock")], SystemTime::now());
        let mut lock_file = lock();
        let mut template = Watch::new(self.subject.template_file.clone(), self.since);
        loop {
            tokio::time::sleep(LOOK).await;
            if template.look() {
                let text = "the template has changed: start again to run with it";
                print::styled_note(Style::Bad, text);
            }
            let has_changed = sources.look();
            if !has_changed && !lock_file.look() {
                continue;
            }
            print::styled_note(Style::Dim, "a source file has changed: building");
            let since = SystemTime::now();
            let built = self.build().await;
            lock_file = lock();
            match built.and_then(|()| self.copied(launch.clone())) {
                Ok(launch) => {
                    sources.add_sources(&self.executable, since);
                    controls.replace(launch);
                    print::styled_note(Style::Dim, "built: new environments run it");
                }
                Err(error) => {
                    print::error(&error);
                    print::styled_note(Style::Bad, "the last build keeps running");
                }
            }
        }
    }

    /// Builds on a separate thread, so that `dev` can end without waiting for the build.
    async fn build(&self) -> Result<()> {
        let (tell, told) = oneshot::channel();
        let (subject, quiet) = (Arc::clone(&self.subject), self.quiet);
        std::thread::spawn(move || {
            // The receiver is gone if `dev` has ended.
            let _ = tell.send(subject.build(quiet));
        });
        match told.await {
            Ok(built) => built.map(|_| ()),
            Err(_) => bail!(INTERRUPTED),
        }
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        // The next run removes what is left.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
