//! The idle execution environments, and the build that new ones run.

use super::environment::Environment;
use crate::launch::Launch;
use crate::local_event::Observers;
use crate::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::watch;

#[derive(Clone)]
pub(super) struct Build {
    pub(super) generation: u64,
    pub(super) launch: Launch,
}

pub(super) struct Environments {
    pub(super) build: watch::Sender<Build>,
    started: AtomicU32,
    idle: Mutex<Vec<Environment>>,
}

impl Environments {
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

    /// Takes the first idle environment that runs the current build, or starts one. Returns the reason if it can't. Ends
    /// the idle environments that can't be used. One that outlived its timeout can be used when it asks for an event.
    pub(super) async fn environment(&self, observers: &Observers) -> Result<Environment, String> {
        let current = self.build.borrow().generation;
        let is_useless =
            |one: &mut Environment| one.generation != current || one.function.status().is_some();
        let useless: Vec<Environment> = lock(&self.idle).extract_if(.., is_useless).collect();
        for environment in useless {
            let reason = match environment.function.status() {
                Some(status) => format!("the process ended: {status}"),
                None => "the function was rebuilt".to_owned(),
            };
            environment.end(&reason).await;
        }
        let idle = {
            let mut idle = lock(&self.idle);
            let asking = (0..idle.len()).filter(|index| idle[*index].function.is_asking());
            let first = asking.min_by_key(|index| idle[*index].number);
            first.map(|index| idle.remove(index))
        };
        if let Some(environment) = idle {
            return Ok(environment);
        }
        let Build { generation, launch } = self.build.borrow().clone();
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        Environment::start(number, generation, launch, observers.clone()).await
    }

    pub(super) fn put(&self, environment: Environment) {
        lock(&self.idle).push(environment);
    }

    pub(super) async fn end_all(&self) {
        let idle = std::mem::take(&mut *lock(&self.idle));
        for environment in idle {
            environment.end("the poller has ended").await;
        }
    }
}
