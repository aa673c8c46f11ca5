//! Paths through `Idempotency`.

use std::future::ready;
use std::sync::mpsc::channel;
use std::time::Duration;

use sqs_once::key::Fingerprint;
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::testing::TestSettings;
use sqs_once::time::Clock;
use sqs_once::{HandlerError, Idempotency, spawn_blocking};
use tokio::task::yield_now;
use tokio::time::advance;

use crate::no_secrets::paths_dynamodb::{self, Quoting};
use crate::no_secrets::paths_store::foreign;
use crate::no_secrets::world::{Unkept, World, show};

const KEY: &str = "canary-key-a";

fn idempotency(world: &World) -> Idempotency {
    Idempotency::new()
        .namespace("test")
        .store(world.store.clone())
        .clock(world.clock.clone())
}

async fn work<T, W: Future<Output = Result<T, HandlerError>>>(
    world: &World,
    idempotency: &Idempotency,
    work: impl FnOnce() -> W,
) where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let invocation = idempotency.until(world.clock.now() + Duration::from_secs(30));
    match invocation.run(KEY, work).await {
        Ok(once) => println!("duplicate: {}", once.is_duplicate()),
        Err(error) => show(&error),
    }
}

pub(crate) async fn done() {
    let world = World::new();
    let idempotency = idempotency(&world);
    for _ in 0..2 {
        work(&world, &idempotency, || ready(Ok("canary-data".to_owned()))).await;
    }
    // The recorded value has another type.
    work(&world, &idempotency, || ready(Ok(7))).await;
}

pub(crate) async fn failed() {
    let world = World::new();
    let idempotency = idempotency(&world);
    let failing = || ready(Err::<u8, HandlerError>("the work's own words".into()));
    work(&world, &idempotency, failing).await;
    work(&world, &idempotency, std::future::pending::<Result<u8, _>>).await;
}

pub(crate) async fn outlived() {
    let world = World::new();
    let idempotency = idempotency(&world);
    let (end, ended) = channel::<()>();
    let blocking = || async {
        let _ = spawn_blocking(move || ended.recv()).await;
        Ok(())
    };
    let ends = async {
        for _ in 0..40 {
            for _ in 0..100 {
                yield_now().await;
            }
            advance(Duration::from_secs(1)).await;
        }
        drop(end);
    };
    tokio::join!(work(&world, &idempotency, blocking), ends);
}

pub(crate) async fn refused() {
    let world = World::new();
    let idempotency = idempotency(&world);
    let invocation = idempotency.until(world.clock.now() + Duration::from_secs(30));
    let keys: [Result<String, String>; 2] =
        [Err("canary-reason".to_owned()), Ok("canary".repeat(1000))];
    for key in keys {
        let ran = invocation.run(&key, || ready(Ok::<_, HandlerError>(7)));
        show(&ran.await.unwrap_err());
    }
}

pub(crate) async fn uncompared() {
    let world = World::new();
    let idempotency = idempotency(&world);
    for body in ["{\"canary\": 1}", "{\"canary\": 1, \"canary-2\": 2}"] {
        let invocation = idempotency.until(world.clock.now() + Duration::from_secs(30));
        let invocation = invocation.fingerprint(Fingerprint::from_body(body));
        let ran = invocation.run(KEY, || ready(Ok::<_, HandlerError>(7)));
        println!("duplicate: {}", ran.await.unwrap().is_duplicate());
    }
}

pub(crate) async fn unrecorded() {
    let world = World::new();
    work(&world, &idempotency(&world), || ready(Ok(Unkept))).await;
    for kind in [StoreErrorKind::AccessDenied, StoreErrorKind::Unanswered] {
        for result in [Err("no".into()), Ok("canary-data".to_owned())] {
            let world = World::new();
            world.store.fail("settle", kind, usize::MAX);
            work(&world, &idempotency(&world), || ready(result)).await;
        }
    }
}

pub(crate) async fn recorded_by_another() {
    let world = World::new();
    work(&world, &idempotency(&world), || {
        foreign(&world, Status::Completed);
        ready(Ok("canary-data".to_owned()))
    })
    .await;
}

pub(crate) async fn dynamodb_errors() {
    for (status, code) in paths_dynamodb::ERRORS {
        let world = World::new();
        let store = Quoting::error(status, code).store();
        let idempotency = idempotency(&world).store(store).readable_keys(true);
        work(&world, &idempotency, || ready(Ok("canary-data".to_owned()))).await;
    }
}
