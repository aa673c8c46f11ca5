//! Runs a plan from its first message to its last.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Error, Result, bail};
use sqs_once_local::{
    DynamoDbError, EventSourceMapping, KeyAttribute, LocalDynamoDb, LocalSqs, NewMessage,
    QueueError, QueueSettings, Queues, Redrive, TableDescription,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::accounts::{Accounts, account};
use crate::chance::Chance;
use crate::environment::{Environment, Shared, counted};
use crate::history::{History, REDRIVEN, number};
use crate::killer::Killer;
use crate::ledger::{self, Desk};
use crate::network::Traffic;
use crate::plan::{Plan, Way};
use crate::report::story;
use crate::worker::{COUNTERS, LEDGER_URL, Order, WAY};

/// How often the dead-letter queue is redriven before its messages count as undone.
const REDRIVES: usize = 10;
/// How often the run checks whether work is left.
const LOOK: Duration = Duration::from_millis(100);
/// From shorter than the function's timeout to longer than a renewed lease.
const BLOCKS_MS: std::ops::Range<u64> = 2_000..14_000;
const SAY: Duration = Duration::from_secs(5);

/// Runs the plan and checks every order. Calls `say` with its progress periodically. Violations are part of the
/// [`Accounts`], not an error.
pub async fn run(plan: Plan, say: impl Fn(&str)) -> Result<Accounts> {
    let chance = Chance::from_seed(plan.seed);
    let history = Arc::new(History::new());
    let sqs = LocalSqs::start(queues(&plan)?).await?;
    send(&plan, &sqs, &history, &chance)?;
    let (queue, dead_letters) = plan.queues();
    let (killer, strikes) = Killer::new(plan.environments);
    let killer = Arc::new(killer);
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        history: Arc::clone(&history),
        dynamodb: database().await?,
        mapping: EventSourceMapping::new(&sqs, queue, Plan::BATCH_SIZE),
        killer: Arc::clone(&killer),
        done: watch::Sender::new(false),
    });
    let desk = Desk {
        history: Arc::clone(&history),
        killer: Arc::clone(&killer),
        chance: chance.part(),
    };
    let ledger = ledger::open(desk).await?;

    let (mut environments, mut wires) = (JoinSet::new(), Vec::new());
    for (number, strikes) in strikes.into_iter().enumerate() {
        let mut urls = Vec::new();
        for url in [shared.dynamodb.endpoint(), sqs.endpoint()] {
            let traffic = Traffic {
                environment: number,
                faults_in_thousand: plan.faults_in_thousand,
                chance: chance.part(),
                outage: Instant::now(),
                history: Arc::clone(&history),
                killer: Arc::clone(&killer),
            };
            let wire = traffic.to(&url).await;
            urls.push(wire.endpoint());
            wires.push(wire);
        }
        let environment = Environment {
            number,
            shared: Arc::clone(&shared),
            variables: variables(&plan, &ledger, &urls, &sqs),
            strikes,
            chance: chance.part(),
        };
        environments.spawn(environment.run());
    }
    let (drained, is_drained) = watch::channel(false);
    let chance = chance.part();
    // The first failure ends the run. Dropping the environments kills their processes.
    tokio::try_join!(
        async {
            killer.work(&plan, &chance, is_drained).await;
            Ok(())
        },
        async {
            drain(&shared, &sqs, &mut environments, &say).await?;
            drained.send_replace(true);
            Ok::<_, Error>(())
        },
    )?;
    shared.done.send_replace(true);
    while let Some(ended) = environments.join_next().await {
        ended??;
    }
    for wire in wires {
        wire.ended().await;
    }

    for message in sqs.queues().messages(dead_letters)? {
        let order: Order = serde_json::from_str(&message.body)?;
        if let Some(order) = number(&order.order_id) {
            history.book().orders[order].dead_letters += 1;
        }
    }
    if plan.way == Way::Transactional {
        for order in 0..plan.orders() {
            let times = counted(&shared.dynamodb, order)?;
            history.book().orders[order].counted = Some(times);
        }
    }
    let book = std::mem::take(&mut *history.book());
    Ok(account(&plan, book, history.elapsed()))
}

fn queues(plan: &Plan) -> Result<Queues, QueueError> {
    let (queue, dead_letters) = plan.queues();
    let mut queues = Queues::default();
    queues.create(dead_letters, QueueSettings::default())?;
    let settings = QueueSettings {
        visibility_timeout: Plan::VISIBILITY,
        redrive: Some(Redrive {
            to: dead_letters.to_owned(),
            max_receive_count: Plan::MAX_RECEIVE_COUNT,
        }),
        ..QueueSettings::default()
    };
    queues.create(queue, settings)?;
    Ok(queues)
}

async fn database() -> Result<LocalDynamoDb, DynamoDbError> {
    let dynamodb = LocalDynamoDb::memory().await?;
    dynamodb.create_table(&TableDescription::default())?;
    dynamodb.create_table(&TableDescription {
        name: COUNTERS.to_owned(),
        partition_key: KeyAttribute::string("id"),
        sort_key: None,
        ttl_attribute: None,
    })?;
    Ok(dynamodb)
}

/// Sends every order, and one copy for every five orders: soon after the original or much later. A copy has the same
/// message id, as when SQS delivers twice, or another one, as when the producer sends twice.
fn send(plan: &Plan, sqs: &LocalSqs, history: &History, chance: &Chance) -> Result<()> {
    let orders = plan.orders();
    let mut sends: Vec<_> = (0..orders).map(|order| (order, order, order)).collect();
    for copy in orders..plan.messages {
        let order = chance.below(orders);
        let distance = match chance.in_thousand(500) {
            true => 10,
            false => orders,
        };
        let id = match chance.in_thousand(500) {
            true => order,
            false => copy,
        };
        sends.push((order + chance.below(distance), order, id));
    }
    sends.sort_by_key(|(position, ..)| *position);
    let works: Vec<_> = (0..orders)
        .map(|_| match chance.in_thousand(5) {
            true => chance.millis(100..1500),
            false => chance.millis(0..20),
        })
        .collect();
    let blocks: Vec<_> = (0..orders)
        .map(|_| match chance.in_thousand(plan.outliving_in_thousand) {
            true => chance.millis(BLOCKS_MS),
            false => Duration::ZERO,
        })
        .collect();
    let (queue, _) = plan.queues();
    for (copy, (_, order, id)) in sends.into_iter().enumerate() {
        let is_spoilt = order % Plan::SPOILT == Plan::SPOILT - 1;
        let mut body = Order::new(order, works[order], is_spoilt);
        body.blocks_ms = u64::try_from(blocks[order].as_millis())?;
        let mut message = NewMessage::new(format!("m-{id}"), serde_json::to_string(&body)?);
        if plan.way == Way::Fifo {
            // The queue recognises no copy, as after its five-minute deduplication interval.
            let group = format!("group-{}", Plan::group(order));
            message = message.in_group(group, format!("copy-{copy}"));
        }
        history.sent(order, &body, &message.id);
        sqs.queues().send(queue, message, SystemTime::now())?;
    }
    Ok(())
}

fn variables(
    plan: &Plan,
    ledger: &str,
    urls: &[String],
    sqs: &LocalSqs,
) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("AWS_ENDPOINT_URL_DYNAMODB", urls[0].clone()),
        ("AWS_ENDPOINT_URL_SQS", urls[1].clone()),
        ("SQS_ONCE_TABLE", TableDescription::default().name),
        ("SQS_ONCE_LEASE_MARGIN", Plan::LEASE_MARGIN.to_owned()),
        ("SQS_ONCE_DLQ_URL", sqs.url(plan.queues().1)),
        (LEDGER_URL, ledger.to_owned()),
        (WAY, plan.way.to_string()),
    ];
    if plan.way == Way::Unprotected {
        variables.push(("SQS_ONCE_DISABLED", "true".to_owned()));
    }
    variables
}

/// Waits until every possible order is done. Redrives messages that are dead letters because of too many kills.
async fn drain(
    shared: &Shared,
    sqs: &LocalSqs,
    environments: &mut JoinSet<Result<()>>,
    say: &impl Fn(&str),
) -> Result<()> {
    let (queue, dead_letters) = shared.plan.queues();
    let (mut redrives, mut seen) = (0, (0, 0));
    let (mut changed, mut said) = (Instant::now(), Instant::now());
    loop {
        tokio::select! {
            () = sleep(LOOK) => {}
            Some(ended) = environments.join_next() => ended??,
        }
        let left = sqs.queues().len(queue)?;
        if left == 0 {
            let undone = undone(sqs, dead_letters)?;
            if undone == 0 || redrives == REDRIVES {
                return Ok(());
            }
            redrives += 1;
            let mut count = 0;
            let new_id = || {
                count += 1;
                format!("{REDRIVEN}{redrives}-{count}")
            };
            sqs.queues()
                .redrive(dead_letters, queue, new_id, SystemTime::now())?;
            shared.history.book().redriven += count;
        }
        let acknowledged = shared.killer.acknowledged_so_far();
        let (deliveries, fates) = {
            let book = shared.history.book();
            (book.deliveries.len(), book.fates)
        };
        if seen != (acknowledged, deliveries) {
            seen = (acknowledged, deliveries);
            changed = Instant::now();
        }
        if changed.elapsed() > Plan::PATIENCE {
            bail!(
                "nothing happened for {:?}, and {left} messages are left in the queue; {}",
                Plan::PATIENCE,
                story_of_first(shared, sqs, queue)?
            );
        }
        if said.elapsed() > SAY {
            said = Instant::now();
            say(&format!(
                "{}: {acknowledged} messages acknowledged, {left} left, {deliveries} deliveries, {} kills, {} freezes, {:.0} messages/s",
                shared.plan.way,
                fates.killed_at_work + fates.killed_idle,
                fates.freezes,
                acknowledged as f64 / shared.history.elapsed().as_secs_f64(),
            ));
        }
    }
}

/// The history of the first order that is still in the queue.
fn story_of_first(shared: &Shared, sqs: &LocalSqs, queue: &str) -> Result<String> {
    let queues = sqs.queues();
    let Some(first) = queues.messages(queue)?.next() else {
        return Ok(String::new());
    };
    let order: Order = serde_json::from_str(&first.body)?;
    let number = number(&order.order_id).unwrap_or_default();
    Ok(story(
        number,
        "it is still in the queue",
        &shared.history.book(),
    ))
}

/// How many messages of the dead-letter queue could be handled.
fn undone(sqs: &LocalSqs, dead_letters: &str) -> Result<usize> {
    let queues = sqs.queues();
    let mut undone = 0;
    for message in queues.messages(dead_letters)? {
        let order: Order = serde_json::from_str(&message.body)?;
        undone += usize::from(!order.is_spoilt);
    }
    Ok(undone)
}
