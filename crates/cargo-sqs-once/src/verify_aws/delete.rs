//! Deletes what a run has created, and nothing else: the tag decides.

use super::account::{Account, text};
use super::error::VerifyError;
use super::names::{Kind, Prefix, Resource};
use super::wait::Waits;
use hyper::Method;
use serde_json::json;
use std::time::Duration;

/// DynamoDB needs minutes for a table at times.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(1);
pub(super) const POLICY: &str = "function";

/// What became of a resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    Deleted,
    /// It does not exist, perhaps because its creation failed.
    NotThere,
    /// It has no tag of the run, so it was left alone.
    NotOurs,
}

/// Deletes a resource if its tag is that of the run with this prefix. Waits until it is gone.
pub(super) async fn delete(
    account: &Account,
    waits: &Waits<'_>,
    prefix: &Prefix,
    resource: &Resource,
) -> Result<Deletion, VerifyError> {
    let Some(found) = account.find(waits, resource).await? else {
        return Ok(Deletion::NotThere);
    };
    if !found.is_of(prefix) {
        return Ok(Deletion::NotOurs);
    }
    let name = &*resource.name;
    match resource.kind {
        Kind::Function => function(account, waits, name).await,
        Kind::Queue => {
            let delete = account.sqs.delete_queue().queue_url(&found.id).send().await;
            gone(delete.map_err(|error| VerifyError::of_sdk("sqs:DeleteQueue", error)))
        }
        Kind::Table => table(account, waits, resource).await,
        Kind::Role => {
            let policy = [("RoleName", name), ("PolicyName", POLICY)];
            let query = account
                .requests
                .query(waits, "iam:DeleteRolePolicy", &policy);
            gone(query.await)?;
            let query = account
                .requests
                .query(waits, "iam:DeleteRole", &policy[..1]);
            gone(query.await)
        }
        Kind::LogGroup => {
            let group = json!({ "logGroupName": name });
            gone(
                account
                    .requests
                    .logs(waits, "logs:DeleteLogGroup", &group)
                    .await,
            )
        }
    }?;
    Ok(Deletion::Deleted)
}

/// A resource that is gone already needs no deletion.
fn gone<T>(deleted: Result<T, VerifyError>) -> Result<(), VerifyError> {
    match deleted {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Deletes a function, after the mappings that Lambda would keep.
async fn function(account: &Account, waits: &Waits<'_>, name: &str) -> Result<(), VerifyError> {
    const MAPPINGS: &str = "/2015-03-31/event-source-mappings/";
    let lambda = async |action, method, path: &str| {
        account
            .requests
            .lambda(waits, action, method, path, None)
            .await
    };
    let of_function = format!("{MAPPINGS}?FunctionName={name}");
    let no_mapping = async || {
        let list = lambda("lambda:ListEventSourceMappings", Method::GET, &of_function).await?;
        let list = list.json();
        let mappings = list["EventSourceMappings"].as_array();
        let mappings = mappings.map(Vec::as_slice).unwrap_or_default();
        for mapping in mappings
            .iter()
            .filter(|mapping| mapping["State"] != "Deleting")
        {
            let path = format!("{MAPPINGS}{}", text(&mapping["UUID"]).unwrap_or_default());
            match lambda("lambda:DeleteEventSourceMapping", Method::DELETE, &path).await {
                // Lambda is still creating or updating it.
                Err(error) if error.has_code(&["ResourceInUseException"]) => {}
                deleted => gone(deleted)?,
            }
        }
        Ok(mappings.is_empty().then_some(()))
    };
    waits
        .until("the event source mapping is gone", LIMIT, PAUSE, no_mapping)
        .await?;
    let path = format!("/2015-03-31/functions/{name}");
    waits
        .until("the function is gone", LIMIT, PAUSE, async || match lambda(
            "lambda:DeleteFunction",
            Method::DELETE,
            &path,
        )
        .await
        {
            Err(error) if error.has_code(&["ResourceConflictException"]) => Ok(None),
            deleted => gone(deleted).map(Some),
        })
        .await
}

async fn table(account: &Account, waits: &Waits<'_>, table: &Resource) -> Result<(), VerifyError> {
    waits
        .until("the table is gone", LIMIT, PAUSE, async || {
            let delete = account.dynamodb.delete_table().table_name(&table.name);
            let deleted = delete.send().await;
            match deleted.map_err(|error| VerifyError::of_sdk("dynamodb:DeleteTable", error)) {
                // DynamoDB is still creating or deleting it.
                Err(error) if error.has_code(&["ResourceInUseException"]) => Ok(None),
                Err(error) if error.is_not_found() => Ok(Some(())),
                Err(error) => Err(error),
                Ok(_) => Ok(None),
            }
        })
        .await
}
