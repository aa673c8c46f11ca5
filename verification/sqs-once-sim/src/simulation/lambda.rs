//! Lambda: execution environments, invocations, deadlines, kills.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use futures_util::future::join_all;
use lambda_runtime::{Context, LambdaEvent};
use sqs_once::Consumer;
use sqs_once::unstable::Running;
use tokio::time::{Instant, sleep, sleep_until};
use tower_service::Service;

use super::clock::{ProcessClock, true_time, true_time_at};
use super::consumer::consumer;
use super::counts::Count;
use super::handler::{INVOCATION, MESSAGE, Order};
use super::ids::{ROUTES, route_of};
use super::mutant::Mutant;
use super::plan::{Fate, Payloads};
use super::process::Process;
use super::property::Property;
use super::queue::Delivery;
use super::world::World;

/// An execution environment: one process, which stays warm between invocations.
pub(crate) struct Environment {
    pub(crate) world: Arc<World>,
    pub(crate) process: Process,
    pub(crate) clock: ProcessClock,
    /// What happens to the process at a timeout.
    fate: Fate,
    invocations: AtomicUsize,
}

/// An environment and its running invocations.
pub(crate) struct Warm {
    pub(crate) environment: Arc<Environment>,
    consumer: Consumer,
}

impl Warm {
    /// A cold start.
    pub(crate) fn start(world: &Arc<World>, name: usize) -> Self {
        world.count(Count::ColdStarts);
        let ahead = world.ahead();
        let process = Process::new(name, world.is_old(name), world.ids(name));
        let environment = Arc::new(Environment {
            world: Arc::clone(world),
            fate: world.plan.fate(&world.chance),
            process,
            clock: ProcessClock::new(world.started, ahead),
            invocations: AtomicUsize::new(0),
        });
        Self {
            consumer: consumer(&environment),
            environment,
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        let most = 1 + usize::from(self.environment.world.plan.overlaps);
        let one = &*self.environment;
        one.invocations.load(Ordering::Relaxed) < most && !one.process.watchdog().drains()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.environment.invocations.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.environment.process.is_dead()
    }

    /// Sets the clock of the environment.
    pub(crate) fn set_clock(&self) {
        let one = &*self.environment;
        one.world.set_clock(&one.process, &one.clock);
    }

    /// Invokes the function with a batch, and sends its answer to SQS.
    pub(crate) fn invoke(&self, batch: Vec<Delivery>) {
        let (environment, consumer) = (Arc::clone(&self.environment), self.consumer.clone());
        let others = environment.invocations.fetch_add(1, Ordering::Relaxed);
        if others > 0 {
            environment.world.count(Count::Overlaps);
        }
        tokio::spawn(async move {
            run(&environment, consumer, batch, others == 0).await;
            environment.invocations.fetch_sub(1, Ordering::Relaxed);
            environment.world.changed.notify_one();
        });
    }
}

async fn run(environment: &Environment, consumer: Consumer, batch: Vec<Delivery>, alone: bool) {
    let Environment { world, process, .. } = environment;
    let invocation = world.witness().invoked();
    process.watchdog().invoked(invocation);
    for one in &batch {
        let (message, key, receives) = (one.message, one.key, one.receives);
        let what = format_args!("gets m{message} (k{key}), delivery {receives}");
        world.note(process, what);
    }
    let time = Time::of(environment);
    let frozen = environment.stands_still(invocation);
    let running = Running::default();
    let answer = running
        .clone()
        .scope(call(environment, consumer, &batch, invocation));
    let mut answer = pin!(answer);
    let answered = tokio::select! {
        biased;
        () = process.died() => return,
        answer = &mut answer => Some(answer),
        () = world.crashes(time.ends_at) => return world.crash(process),
        () = sleep_until(time.is_up_at()) => None,
        never = frozen => match never {},
    };
    process.watchdog().answered(invocation);
    let is_answered = answered.is_some();
    match answered {
        Some(failures) => {
            // A concurrent invocation has claims of its own.
            if alone && environment.invocations.load(Ordering::Relaxed) == 1 {
                world.witness().answered(process, invocation);
            } else {
                world.count(Count::Answers);
            }
            world.note(process, format_args!("answers: failed {failures:?}"));
            answer_arrives(world, &batch, &failures).await;
        }
        None => time.is_over_without_answer(environment),
    }
    // Like `run`, requests the next event only when no code of this invocation runs.
    if world.mutant() == Some(Mutant::NextEventTooEarly) {
        return;
    }
    let ended = async {
        if !is_answered {
            answer.await;
            world.note(process, "answers after its deadline");
            world.count(Count::LateAnswers);
        }
        running.ended().await;
    };
    let mut ended = pin!(ended);
    if is_answered {
        tokio::select! {
            biased;
            () = process.died() => return,
            () = &mut ended => return,
            () = sleep_until(time.is_up_at()) => {
                if !environment.survives_deadline("code of a handler still runs") {
                    world.count(Count::KilledAtWork);
                }
            }
        }
    }
    tokio::select! {
        biased;
        () = process.died() => {}
        () = ended => {}
    }
}

/// The time of an invocation.
struct Time {
    begun: Instant,
    ends_at: Instant,
    /// How late Lambda ends the process.
    late: Duration,
    /// Whether the clock of the process was accurate enough at the beginning.
    was_on_time: bool,
}

impl Time {
    /// The time of an invocation that begins now.
    fn of(environment: &Environment) -> Self {
        let (world, begun) = (&environment.world, Instant::now());
        Self {
            begun,
            ends_at: begun + world.plan.timeout,
            late: world.chance.millis(0..world.plan.late_kill),
            was_on_time: is_on_time(environment),
        }
    }

    fn is_up_at(&self) -> Instant {
        self.ends_at + self.late
    }

    /// The time is over, and the process has not answered.
    fn is_over_without_answer(&self, environment: &Environment) {
        let Environment { world, process, .. } = environment;
        let is_excused = !self.was_on_time || !is_on_time(environment);
        if !is_excused && !process.is_frozen_after(self.begun) {
            let what = match environment.fate {
                Fate::Ends => "was killed at its deadline",
                Fate::Freezes | Fate::LivesOn => "has not answered at its deadline",
            };
            let what = format!("{process} {what}");
            world.witness().violated(Property::AnswersInTime, what);
        }
        if environment.survives_deadline("it has not answered") {
            return;
        }
        world.count(Count::Timeouts);
        if self.late > Duration::ZERO {
            world.count(Count::LateKills);
        }
    }
}

impl Environment {
    /// At a deadline, the process ends, is frozen, or lives on. Returns whether it survives.
    fn survives_deadline(&self, why: &str) -> bool {
        let Self { world, process, .. } = self;
        match self.fate {
            Fate::Ends => {
                world.note(process, format_args!("is killed at its deadline: {why}"));
                process.die();
            }
            Fate::Freezes => {
                let time = world.frozen_for();
                let what = format_args!("is frozen at its deadline for {time:?}: {why}");
                world.note(process, what);
                world.count(Count::FrozenAtDeadline);
                process.freeze(Instant::now() + time);
            }
            Fate::LivesOn => {
                world.note(process, format_args!("lives on after its deadline: {why}"));
                world.count(Count::LivedOn);
            }
        }
        let survives = self.fate != Fate::Ends;
        if survives && world.is_troubled() {
            match world.chance.below(4) {
                0 => {
                    world.note(process, "loses its network at its deadline");
                    process.cut_off();
                }
                1 => {
                    world.note(process, "has a slow network from its deadline on");
                    process.slow_down();
                }
                _ => {}
            }
        }
        survives
    }

    /// Freezes the process once in a while, at any moment of an invocation without an answer. Its monotonic clock stops
    /// then: see [`ProcessClock::lag_once`]. Other timers of the process fire in time.
    fn stands_still(&self, invocation: usize) -> impl Future<Output = Infallible> + '_ {
        let Self { world, process, .. } = self;
        let happens = self.fate == Fate::Freezes && world.is_troubled() && world.chance.once_in(3);
        let frozen = happens.then(|| {
            let within = u64::try_from(world.plan.timeout.as_millis()).unwrap_or(1);
            let time = world.frozen_for();
            self.clock.lag_once(time);
            (Instant::now() + world.chance.millis(0..within), time)
        });
        async move {
            let Some((at, time)) = frozen else {
                return pending().await;
            };
            sleep_until(at).await;
            world.note(process, format_args!("stands still for {time:?}"));
            world.witness().stands_still(invocation);
            process.freeze(Instant::now() + time);
            pending().await
        }
    }
}

async fn answer_arrives(world: &World, batch: &[Delivery], failures: &[usize]) {
    if world.is_troubled() && world.chance.once_in(20) {
        world.count(Count::AnswersLost);
        world.note("lambda", "the answer is lost");
        return;
    }
    sleep(world.chance.millis(0..30)).await;
    world.take_back(batch, failures);
}

/// Whether the clock is accurate enough to answer before the deadline. A quarter of the deadline margin is reserved for
/// sending the answer; the clock may be behind by less than half of that.
fn is_on_time(environment: &Environment) -> bool {
    let margin = Duration::from_secs(1).min(environment.world.plan.timeout / 10);
    let behind = Duration::from_millis((-environment.clock.ahead()).try_into().unwrap_or_default());
    behind < margin / 8
}

/// The messages that the function reports as failed; the whole batch if the invocation fails.
async fn call(
    environment: &Environment,
    mut consumer: Consumer,
    batch: &[Delivery],
    invocation: usize,
) -> Vec<usize> {
    let world = &environment.world;
    let ends_at = true_time(world.started) + world.plan.timeout;
    let event = |batch: &[Delivery]| {
        let mut event = SqsEvent::default();
        event.records = batch
            .iter()
            .map(|one| record(world, one, invocation))
            .collect();
        let mut context = Context::default();
        context.deadline = ends_at.as_millis();
        LambdaEvent::new(event, context)
    };
    let answers = match world.mutant() {
        Some(Mutant::NoCoalescing) => {
            let calls = batch.iter().map(|one| consumer.call(event(&[*one])));
            join_all(calls.collect::<Vec<_>>()).await
        }
        _ => vec![consumer.call(event(batch)).await],
    };
    // A frozen process answers when it continues. A dead process never answers.
    environment.process.goes_on().await;
    let mut failures = Vec::new();
    for answer in answers {
        match answer {
            Ok(answer) => {
                failures.extend(answer.batch_item_failures.iter().filter_map(|failure| {
                    failure
                        .item_identifier
                        .strip_prefix('m')?
                        .parse::<usize>()
                        .ok()
                }))
            }
            Err(_) => failures.extend(batch.iter().map(|one| one.message)),
        }
    }
    failures
}

fn record(world: &World, delivery: &Delivery, invocation: usize) -> SqsMessage {
    let (message, receives) = (delivery.message, delivery.receives);
    let arn = match world.plan.is_fifo && world.mutant() != Some(Mutant::NoFifo) {
        true => "arn:aws:sqs:eu-central-1:123456789012:orders.fifo",
        false => "arn:aws:sqs:eu-central-1:123456789012:orders",
    };
    let sent_at = true_time_at(world.started, delivery.sent_at);
    let mut attributes = HashMap::from([
        ("SentTimestamp".to_owned(), sent_at.as_millis().to_string()),
        ("ApproximateReceiveCount".to_owned(), receives.to_string()),
        (INVOCATION.to_owned(), invocation.to_string()),
        (MESSAGE.to_owned(), message.to_string()),
    ]);
    if world.plan.is_fifo {
        let part = match world.mutant() {
            Some(Mutant::RoutesSplitGroups) => ROUTES[route_of(delivery.key)],
            _ => "",
        };
        let group = format!("g{}{part}", delivery.group);
        attributes.insert("MessageGroupId".to_owned(), group);
    }
    let more = match world.plan.payloads {
        Payloads::MoreFields if !message.is_multiple_of(2) => r#","more":1"#.to_owned(),
        Payloads::Different => format!(r#","payload":{}"#, delivery.payload),
        _ => String::new(),
    };
    let mut record = SqsMessage::default();
    record.message_id = Some(format!("m{message}"));
    record.receipt_handle = Some(format!("{message}.{}", delivery.receipt));
    record.body = Some(Order::body(world.plan.ids[0], delivery.key, &more));
    record.attributes = attributes;
    record.event_source_arn = Some(arn.to_owned());
    record
}
