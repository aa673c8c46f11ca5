//! One run: creates, measures, checks, and deletes in any case.

use super::account::Account;
use super::delete::{Deletion, delete};
use super::deploy::Deployer;
use super::effects::{Check, checks};
use super::error::VerifyError;
use super::latency::{Statement, Times};
use super::messages::Messages;
use super::names::{Prefix, Resource};
use super::price::Usage;
use super::report::Report;
use super::traffic::Traffic;
use super::wait::Waits;
use super::{VerifyAwsArgs, invocations, latency, metrics, suite};
use crate::interrupt::Interrupt;
use crate::print;
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// How long the deletion may take.
const DELETION: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(2);

/// What was measured until now, also if the run stops early.
#[derive(Default)]
struct Facts {
    checks: Vec<Check>,
    statements: Vec<Statement>,
    cold_starts: Times,
    used: Usage,
}

/// Runs everything, and deletes what was created.
///
/// # Errors
/// [`VerifyError::Interrupted`], after the deletion. Another error stops the run, and is in the report.
pub(super) async fn run<'a>(
    account: &'a Account,
    waits: &Waits<'_>,
    args: &VerifyAwsArgs,
    messages: &'a Messages,
    expected: Usage,
    zip: &[u8],
) -> Result<Report<'a>, VerifyError> {
    let (prefix, created) = (Prefix::random(), RefCell::default());
    let deployer = Deployer {
        account,
        waits,
        prefix: &prefix,
        created: &created,
    };
    print::note(&format!("this run is {prefix}"));
    let (started, clock) = (SystemTime::now(), Instant::now());
    let mut facts = Facts::default();
    let ended = steps(&deployer, args, messages, zip, started, &mut facts).await;
    print::note("deleting everything");
    let left = delete_all(account, &prefix, created.take()).await;
    if !left.is_empty() {
        print::note(&format!(
            "these are left, and --clean deletes them: {}",
            left.join(", ")
        ));
    }
    let stopped = match ended {
        Err(VerifyError::Interrupted) => return Err(VerifyError::Interrupted),
        Err(error) => Some(chain(&error)),
        Ok(()) => None,
    };
    Ok(Report {
        region: &account.region,
        architecture: args.architecture,
        started,
        took: clock.elapsed(),
        messages,
        checks: facts.checks,
        statements: facts.statements,
        cold_starts: facts.cold_starts,
        expected,
        used: facts.used,
        stopped,
        left,
    })
}

async fn steps(
    deployer: &Deployer<'_>,
    args: &VerifyAwsArgs,
    messages: &Messages,
    zip: &[u8],
    started: SystemTime,
    facts: &mut Facts,
) -> Result<(), VerifyError> {
    let Deployer {
        account,
        waits,
        prefix,
        ..
    } = deployer;
    print::note("creating the tables, the queues and the function");
    let deployment = &deployer.all(zip, args.architecture).await?;

    print::note("testing the store on a table");
    let table = prefix.table("suite").name;
    let suite = waits.unless_interrupted(suite::run(&account.dynamodb, &table));
    facts.checks.push(Check {
        promise: "the table keeps every promise of the conformance suite",
        found: suite.await?.map(|()| "all cases".to_owned()),
    });
    match latency::measure(waits, &account.dynamodb, &table).await? {
        Ok(statements) => facts.statements = statements,
        Err(error) => facts.checks.push(Check {
            promise: "the table answers every statement of the measurement",
            found: Err(error),
        }),
    }

    let traffic = Traffic {
        account,
        waits,
        deployment,
        limit: args.timeout,
        sqs_requests: Cell::new(0),
    };
    for wave in [&messages.first, &messages.second] {
        print::note(&format!(
            "sending {} messages, and waiting for all retries",
            wave.len()
        ));
        traffic.send(wave).await?;
        traffic.until_empty().await?;
    }
    print::note("checking every effect");
    let effects = traffic.effects(prefix, messages.poison.len()).await?;
    facts.checks.extend(checks(messages, &effects));
    facts.used.sqs_requests = Some(f64::from(traffic.sqs_requests.get()));

    print::note("measuring cold starts and cost");
    facts.cold_starts = invocations::cold_starts(deployer, deployment, args.cold_starts).await?;
    let logged = invocations::logged(deployer).await?;
    if !logged.is_empty() {
        let billed: f64 = logged.iter().map(|report| report.billed_ms).sum();
        facts.used.invocations = Some(logged.len() as f64);
        facts.used.billed_seconds = Some(billed / 1000.0);
    }
    let consumed = metrics::consumed(account, waits, prefix, started, args.metrics_timeout).await?;
    facts.used.write_units = consumed.write_units;
    facts.used.read_units = consumed.read_units;
    facts.used.log_bytes = consumed.log_bytes;
    Ok(())
}

/// Deletes everything whose creation was requested, and looks again until nothing is there. Returns what is left.
///
/// Ctrl-C does not stop it; a second one ends the process.
async fn delete_all(account: &Account, prefix: &Prefix, mut created: Vec<Resource>) -> Vec<String> {
    let interrupt = &Interrupt::never();
    let waits = &Waits { interrupt };
    created.sort();
    // What the next look may find gone, and what no look can delete.
    let (left, denied) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let nothing = async || {
        left.take();
        denied.take();
        for resource in &created {
            match delete(account, waits, prefix, resource).await {
                Ok(Deletion::NotThere) => {}
                Ok(Deletion::Deleted) => left.borrow_mut().push(resource.to_string()),
                Ok(Deletion::NotOurs) => {
                    let text = format!("{resource} (without its tag)");
                    left.borrow_mut().push(text);
                }
                Err(error) => {
                    let text = format!("{resource} ({})", chain(&error));
                    match error {
                        VerifyError::Denied { .. } => denied.borrow_mut().push(text),
                        _ => left.borrow_mut().push(text),
                    }
                }
            }
        }
        Ok(left.borrow().is_empty().then_some(()))
    };
    let deleted = waits.until("everything is deleted", DELETION, PAUSE, nothing);
    // Past the limit, `left` has what the last look found.
    let _ = deleted.await;
    [denied.take(), left.take()].concat()
}

/// An error and its causes, in one line.
fn chain(error: &VerifyError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
