//! What Lambda reports about invocations: billed time and cold starts.

use super::deploy::{Deployer, Deployment};
use super::error::VerifyError;
use super::latency::Times;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::Duration;

/// CloudWatch shows a line some seconds after the invocation.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(3);

/// The line `REPORT` of one invocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reported {
    pub(super) billed_ms: f64,
    /// Only the first invocation of an environment has one.
    pub(super) init_ms: Option<f64>,
}

/// Reads the reports among a log's lines.
fn reports(log: &str) -> Vec<Reported> {
    let lines = log.lines().filter(|line| line.starts_with("REPORT "));
    let reports = lines.filter_map(|line| {
        let field = |name: &str| {
            let (_, value) = line.split_once(name)?;
            value.split_whitespace().next()?.parse().ok()
        };
        Some(Reported {
            billed_ms: field("Billed Duration:")?,
            init_ms: field("Init Duration:"),
        })
    });
    reports.collect()
}

/// Replaces the function's environments several times, and returns the time that Lambda reports for each initialisation.
/// The times are empty if Lambda reports none.
pub(super) async fn cold_starts(
    deployer: &Deployer<'_>,
    deployment: &Deployment,
    count: u32,
) -> Result<Times, VerifyError> {
    let (requests, waits) = (&deployer.account.requests, deployer.waits);
    let function = format!("/2015-03-31/functions/{}", deployer.prefix);
    let mut times = Vec::new();
    for n in 0..count {
        let mut environment = deployment.environment.clone();
        // Lambda starts new environments after a change of a variable.
        environment["COLD_START"] = n.to_string().into();
        let change = json!({ "Environment": { "Variables": environment } });
        let (action, path) = (
            "lambda:UpdateFunctionConfiguration",
            format!("{function}/configuration"),
        );
        requests
            .lambda(waits, action, Method::PUT, &path, Some(&change))
            .await?;
        deployer
            .until_function_is("Successful", "LastUpdateStatus")
            .await?;
        let (event, path) = (json!({ "Records": [] }), format!("{function}/invocations"));
        let invoke = requests.lambda(
            waits,
            "lambda:InvokeFunction",
            Method::POST,
            &path,
            Some(&event),
        );
        let log = STANDARD.decode(invoke.await?.log.unwrap_or_default());
        let log = String::from_utf8_lossy(&log.unwrap_or_default()).into_owned();
        let init = reports(&log).last().and_then(|report| report.init_ms);
        times.extend(init.map(|ms| Duration::from_secs_f64(ms / 1000.0)));
    }
    Ok(Times::new(times))
}

/// All reports in the function's log. Waits until no new ones appear. Empty without invocations.
pub(super) async fn logged(deployer: &Deployer<'_>) -> Result<Vec<Reported>, VerifyError> {
    let before = Cell::new(0);
    let complete = async || {
        let found = logged_so_far(deployer).await?;
        let is_complete = !found.is_empty() && before.replace(found.len()) == found.len();
        Ok(is_complete.then_some(found))
    };
    let complete = deployer
        .waits
        .until("the function's log", LIMIT, PAUSE, complete);
    match complete.await {
        Err(VerifyError::TimedOut { .. }) => logged_so_far(deployer).await,
        complete => complete,
    }
}

async fn logged_so_far(deployer: &Deployer<'_>) -> Result<Vec<Reported>, VerifyError> {
    let group = deployer.prefix.log_group().name;
    let mut query = json!({ "logGroupName": group, "filterPattern": "\"REPORT RequestId\"" });
    let mut found = Vec::new();
    loop {
        let requests = &deployer.account.requests;
        let answer = requests
            .logs(deployer.waits, "logs:FilterLogEvents", &query)
            .await?;
        let mut page = answer.json();
        let events = page["events"].as_array().into_iter().flatten();
        found.extend(
            events.flat_map(|event| reports(event["message"].as_str().unwrap_or_default())),
        );
        match page["nextToken"].take() {
            Value::Null => return Ok(found),
            next => query["nextToken"] = next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_cold_and_warm_invocations_are_read_among_other_lines() {
        let log = "START RequestId: a Version: $LATEST\n\
            {\"level\":\"INFO\",\"message\":\"REPORT Billed Duration: 1 ms\"}\n\
            END RequestId: a\n\
            REPORT RequestId: a\tDuration: 395.99 ms\tBilled Duration: 662 ms\tMemory Size: 512 MB\tMax Memory Used: 301 MB\tInit Duration: 265.72 ms\t\n\
            REPORT RequestId: b\tDuration: 1.2 ms\tBilled Duration: 2 ms\tMemory Size: 512 MB\tMax Memory Used: 301 MB\t\n";
        let cold = Reported {
            billed_ms: 662.0,
            init_ms: Some(265.72),
        };
        let warm = Reported {
            billed_ms: 2.0,
            init_ms: None,
        };
        assert_eq!(reports(log), [cold, warm]);
    }
}
