//! The capacity that the tables consumed and the bytes that were logged, as CloudWatch has them.

use super::account::Account;
use super::deploy::TABLES;
use super::error::VerifyError;
use super::names::Prefix;
use super::wait::Waits;
use std::cell::Cell;
use std::time::{Duration, SystemTime};

const PAUSE: Duration = Duration::from_secs(30);

/// Figures that are `None` if CloudWatch has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Consumed {
    pub(super) write_units: Option<f64>,
    pub(super) read_units: Option<f64>,
    pub(super) log_bytes: Option<f64>,
}

/// What a run consumed. CloudWatch lags behind by minutes, so this waits until two looks find the same.
pub(super) async fn consumed(
    account: &Account,
    waits: &Waits<'_>,
    prefix: &Prefix,
    since: SystemTime,
    limit: Duration,
) -> Result<Consumed, VerifyError> {
    let of_tables = async |metric| {
        let mut all = None;
        for (table, _) in TABLES {
            let of = [
                "AWS/DynamoDB",
                metric,
                "TableName",
                &prefix.table(table).name,
            ];
            if let Some(sum) = sum(account, waits, of, since).await? {
                all = Some(all.unwrap_or(0.0) + sum);
            }
        }
        Ok::<_, VerifyError>(all)
    };
    let group = prefix.log_group().name;
    let before = Cell::new(Consumed::default());
    let settled = async || {
        let logged = ["AWS/Logs", "IncomingBytes", "LogGroupName", &group];
        let found = Consumed {
            write_units: of_tables("ConsumedWriteCapacityUnits").await?,
            read_units: of_tables("ConsumedReadCapacityUnits").await?,
            log_bytes: sum(account, waits, logged, since).await?,
        };
        let is_settled = found.write_units.is_some() && before.replace(found) == found;
        Ok(is_settled.then_some(found))
    };
    let settled = waits.until("the metrics of the tables", limit, PAUSE, settled);
    match settled.await {
        Err(VerifyError::TimedOut { .. }) => Ok(before.get()),
        settled => settled,
    }
}

/// The sum of a metric, given by its namespace, its name, and the name and value of its dimension.
async fn sum(
    account: &Account,
    waits: &Waits<'_>,
    [namespace, metric, dimension, value]: [&str; 4],
    since: SystemTime,
) -> Result<Option<f64>, VerifyError> {
    let time = |time| humantime::format_rfc3339_seconds(time).to_string();
    let (from, to) = (time(since), time(SystemTime::now() + PAUSE));
    let parameters = [
        ("Namespace", namespace),
        ("MetricName", metric),
        ("Dimensions.member.1.Name", dimension),
        ("Dimensions.member.1.Value", value),
        ("StartTime", &*from),
        ("EndTime", &*to),
        ("Period", "300"),
        ("Statistics.member.1", "Sum"),
    ];
    let action = "cloudwatch:GetMetricStatistics";
    let answer = account.requests.query(waits, action, &parameters).await?;
    let sums = answer.elements("Sum");
    let sums: Vec<f64> = sums.iter().filter_map(|sum| sum.parse().ok()).collect();
    Ok((!sums.is_empty()).then(|| sums.iter().sum()))
}
