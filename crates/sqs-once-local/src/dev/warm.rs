//! The idle execution environments, and the build that new ones run.

use super::Observers;
use super::environment::Environment;
use crate::launch::Launch;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// The current build of the function.
#[derive(Clone)]
pub(super) struct Build {
    pub(super) generation: u64,
    pub(super) launch: Launch,
}

pub(super) struct Warm {
    pub(super) build: watch::Sender<Build>,
    started: AtomicU32,
    idle: Mutex<Vec<Environment>>,
}

impl Warm {
    pub(super) fn new(launch: Launch) -> Self {
        Self {
            build: watch::Sender::new(Build {
                generation: 0,
                launch,
            }),
            started: AtomicU32::new(0),
            idle: Mutex::default(),
        }
    }

    pub(super) fn is_current(&self, environment: &Environment) -> bool {
        environment.generation == self.build.borrow().generation
    }

    /// Takes a live environment that runs the current build. Ends all idle ones that do not.
    pub(super) async fn take(&self) -> Option<Environment> {
        let is_useless =
            |one: &mut Environment| !self.is_current(one) || one.function.status().is_some();
        let useless: Vec<Environment> = self.idle().extract_if(.., is_useless).collect();
        for environment in useless {
            match environment.function.status() {
                Some(status) => {
                    environment
                        .end(&format!("the process ended: {status}"))
                        .await
                }
                None => environment.end("the function was built anew").await,
            }
        }
        self.idle().pop()
    }

    pub(super) fn put(&self, environment: Environment) {
        self.idle().push(environment);
    }

    /// Starts an environment. Returns the reason if it can't.
    pub(super) async fn start(&self, observers: &Observers) -> Result<Environment, String> {
        let Build { generation, launch } = self.build.borrow().clone();
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        Environment::start(number, generation, launch, observers.clone()).await
    }

    pub(super) async fn end_all(&self) {
        loop {
            let Some(environment) = self.idle().pop() else {
                return;
            };
            environment.end("the poller has ended").await;
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Environment>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
