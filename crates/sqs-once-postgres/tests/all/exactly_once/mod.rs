//! Rows that commit with the completion of their key are written exactly once, for every fault at every message. A control
//! writes the same rows outside the transaction and must fail, which proves that these tests detect errors.
//!
//! `SQS_ONCE_SEEDS` sets the number of random scenarios, `SQS_ONCE_FIRST_SEED` the first seed. `.ci/long storms` runs
//! the thousands of scenarios in the documentation. The seed determines every random choice, but not the timing of
//! concurrent processes.

mod chance;
mod killed;
pub(crate) mod proxy;
mod world;

use std::sync::LazyLock;

use futures_util::{StreamExt, stream};
use postgres_for_tests::Server;

use proxy::{ConnectionFault, FaultSchedule};
use world::{Place, Told, Way, tell};

const SEEDS: u64 = 100;
/// Every fault occurs at each of these messages. A process that handles one record sends about as many.
const STEPS: usize = 40;
/// The number of concurrent scenarios.
const AT_ONCE: usize = 8;

static SERVER: LazyLock<Server> = LazyLock::new(Server::start_without_fsync);

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().unwrap())
}

async fn tell_all(
    way: Way,
    scenarios: impl IntoIterator<Item = (String, FaultSchedule, u64)>,
) -> Vec<(String, Told)> {
    let place = Place::new(&SERVER, "").await;
    let client = place.connect().await;
    let (place, client) = (&place, &client);
    let stories = scenarios.into_iter().map(async |(name, schedule, seed)| {
        let told = tell(place, client, way, schedule, seed, &name).await;
        (name, told)
    });
    let stories = stream::iter(stories).buffer_unordered(AT_ONCE);
    stories.collect().await
}

/// Every fault at every message, each in its own scenario.
fn one_fault_each() -> Vec<(String, FaultSchedule, u64)> {
    let faults = ConnectionFault::ALL.into_iter();
    let steps = faults.flat_map(|fault| (0..STEPS).map(move |step| (fault, step)));
    let named = steps.map(|(fault, step)| {
        let name = format!("{fault:?} at message {step}");
        (name, FaultSchedule::Once(step, fault), step as u64)
    });
    named.collect()
}

fn storms(count: u64) -> impl Iterator<Item = (String, FaultSchedule, u64)> {
    let first = number("SQS_ONCE_FIRST_SEED", 0);
    (first..first + count).map(|seed| {
        let schedule = FaultSchedule::Storm {
            once_in: 20,
            messages: 150,
        };
        ("storm".to_owned(), schedule, seed)
    })
}

fn all_are_exactly_once(stories: &[(String, Told)]) {
    assert!(!stories.is_empty());
    for (name, told) in stories {
        let Told {
            effects,
            lost,
            story,
            ..
        } = told;
        let is_once = lost.is_empty() && effects.iter().all(|times| *times == 1);
        assert!(
            is_once,
            "{name}: effects {effects:?}, acknowledged without one: {lost:?}\n{story}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_written_exactly_once_whatever_befalls_any_message() {
    one_fault_each_is_harmless(Way::Together).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_batch_are_written_exactly_once_whatever_befalls_any_message() {
    one_fault_each_is_harmless(Way::Batch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_work_without_sqs_are_written_exactly_once_whatever_befalls_any_message() {
    one_fault_each_is_harmless(Way::WithoutSqs).await;
}

async fn one_fault_each_is_harmless(way: Way) {
    let stories = tell_all(way, one_fault_each()).await;
    all_are_exactly_once(&stories);
    let reached = stories.iter().map(|(_, told)| told.messages).min();
    assert!(reached > Some(STEPS / 2), "too few messages: {reached:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_written_exactly_once_in_any_storm() {
    let seeds = number("SQS_ONCE_SEEDS", SEEDS);
    all_are_exactly_once(&tell_all(Way::Together, storms(seeds)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_batch_are_written_exactly_once_in_any_storm() {
    let seeds = number("SQS_ONCE_SEEDS", SEEDS);
    all_are_exactly_once(&tell_all(Way::Batch, storms(seeds)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_work_without_sqs_are_written_exactly_once_in_any_storm() {
    let seeds = number("SQS_ONCE_SEEDS", SEEDS);
    all_are_exactly_once(&tell_all(Way::WithoutSqs, storms(seeds)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_apart_from_their_completion_are_never_lost_but_written_twice() {
    let stories = tell_all(Way::Apart, storms(50)).await;
    assert!(stories.iter().all(|(_, told)| told.lost.is_empty()));
    let twice = |told: &Told| told.effects.iter().any(|times| *times > 1);
    let count = stories.iter().filter(|(_, told)| twice(told)).count();
    let told = stories.len();
    assert!(count * 20 > told, "{count} of {told} saw a second effect");
}
