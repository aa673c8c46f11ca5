//! The account: clients, and the requests that find a resource by its name and read its tag.

use super::error::VerifyError;
use super::names::{Kind, Prefix, ROLE_PATH, Resource, TAG};
use super::requests::Requests;
use super::wait::Waits;
use hyper::Method;
use serde_json::{Value, json};
use sqs_once::aws_sdk_dynamodb::Client as DynamoDb;
use sqs_once_operate::SdkConfig;
use std::collections::BTreeSet;

type Result<T> = std::result::Result<T, VerifyError>;

pub(super) struct Account {
    pub(super) dynamodb: DynamoDb,
    pub(super) sqs: aws_sdk_sqs::Client,
    pub(super) requests: Requests,
    pub(super) region: String,
}

/// A resource that exists.
pub(super) struct Found {
    /// Its ARN, or a queue's URL.
    pub(super) id: String,
    /// The value of the tag [`TAG`].
    tag: Option<String>,
}

impl Found {
    /// Whether the run with this prefix has created it.
    pub(super) fn is_of(&self, prefix: &Prefix) -> bool {
        self.tag.as_deref() == Some(prefix.as_str())
    }
}

impl Account {
    pub(super) fn new(config: &SdkConfig) -> Result<Self> {
        let region = config.region().map(ToString::to_string);
        Ok(Self {
            dynamodb: DynamoDb::new(config),
            sqs: aws_sdk_sqs::Client::new(config),
            requests: Requests::new(config)?,
            region: region.unwrap_or_default(),
        })
    }

    /// Looks a resource up. `None` if no resource has this name.
    pub(super) async fn find(
        &self,
        waits: &Waits<'_>,
        resource: &Resource,
    ) -> Result<Option<Found>> {
        let found = match resource.kind {
            Kind::Table => self.find_table(&resource.name).await,
            Kind::Queue => self.find_queue(&resource.name).await,
            Kind::Role => self.find_role(waits, &resource.name).await,
            Kind::Function => self.find_function(waits, &resource.name).await,
            Kind::LogGroup => return self.find_log_group(waits, &resource.name).await,
        };
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn find_table(&self, name: &str) -> Result<Found> {
        let action = "dynamodb:DescribeTable";
        let described = self.dynamodb.describe_table().table_name(name).send().await;
        let described = described.map_err(|error| VerifyError::of_sdk(action, error))?;
        let table = described.table.and_then(|table| table.table_arn);
        let id = table.ok_or_else(|| incomplete(action, "the table's ARN"))?;
        let tags = self.dynamodb.list_tags_of_resource().resource_arn(&id);
        let tags = tags.send().await;
        let tags =
            tags.map_err(|error| VerifyError::of_sdk("dynamodb:ListTagsOfResource", error))?;
        let tags = tags.tags.unwrap_or_default().into_iter();
        let tag = tags
            .filter(|tag| tag.key == TAG)
            .map(|tag| tag.value)
            .next();
        Ok(Found { id, tag })
    }

    async fn find_queue(&self, name: &str) -> Result<Found> {
        let url = self.sqs.get_queue_url().queue_name(name).send().await;
        let url = url.map_err(|error| VerifyError::of_sdk("sqs:GetQueueUrl", error))?;
        let id = url
            .queue_url
            .ok_or_else(|| incomplete("sqs:GetQueueUrl", "the URL"))?;
        let tags = self.sqs.list_queue_tags().queue_url(&id).send().await;
        let tags = tags.map_err(|error| VerifyError::of_sdk("sqs:ListQueueTags", error))?;
        let tag = tags.tags.and_then(|mut tags| tags.remove(TAG));
        Ok(Found { id, tag })
    }

    async fn find_role(&self, waits: &Waits<'_>, name: &str) -> Result<Found> {
        let role = [("RoleName", name)];
        let query = self.requests.query(waits, "iam:ListRoleTags", &role);
        let answer = query.await?;
        let mut tags = answer
            .elements("Key")
            .into_iter()
            .zip(answer.elements("Value"));
        let tag = tags
            .find(|(key, _)| *key == TAG)
            .map(|(_, value)| value.to_owned());
        let id = name.to_owned();
        Ok(Found { id, tag })
    }

    async fn find_function(&self, waits: &Waits<'_>, name: &str) -> Result<Found> {
        let path = format!("/2015-03-31/functions/{name}");
        let get = self
            .requests
            .lambda(waits, "lambda:GetFunction", Method::GET, &path, None);
        let function = get.await?.json();
        let id = text(&function["Configuration"]["FunctionArn"]);
        let id = id.ok_or_else(|| incomplete("lambda:GetFunction", "the function's ARN"))?;
        let tag = text(&function["Tags"][TAG]);
        Ok(Found { id, tag })
    }

    async fn find_log_group(&self, waits: &Waits<'_>, name: &str) -> Result<Option<Found>> {
        let groups = self.log_groups(waits, name).await?;
        let group = groups
            .into_iter()
            .find(|group| group["logGroupName"] == name);
        let Some(arn) = group.and_then(|group| text(&group["arn"])) else {
            return Ok(None);
        };
        // Tags belong to the ARN without the streams.
        let id = arn.trim_end_matches(":*").to_owned();
        let of = json!({ "resourceArn": id });
        let tags = self
            .requests
            .logs(waits, "logs:ListTagsForResource", &of)
            .await?;
        let tag = text(&tags.json()["tags"][TAG]);
        Ok(Some(Found { id, tag }))
    }

    async fn log_groups(&self, waits: &Waits<'_>, prefix: &str) -> Result<Vec<Value>> {
        let mut groups = Vec::new();
        let mut query = json!({ "logGroupNamePrefix": prefix });
        loop {
            let answer = self
                .requests
                .logs(waits, "logs:DescribeLogGroups", &query)
                .await?;
            let mut page = answer.json();
            groups.append(page["logGroups"].as_array_mut().unwrap_or(&mut Vec::new()));
            match page["nextToken"].take() {
                Value::Null => return Ok(groups),
                next => query["nextToken"] = next,
            }
        }
    }

    /// All resources whose names a run could have given. Whether a run created them, their tags tell.
    pub(super) async fn candidates(&self, waits: &Waits<'_>) -> Result<Vec<Resource>> {
        let groups = self
            .log_groups(waits, &format!("/aws/lambda/{TAG}-"))
            .await?;
        let groups = groups
            .iter()
            .filter_map(|group| text(&group["logGroupName"]));
        let all = [
            (Kind::Function, self.functions(waits).await?),
            (Kind::Queue, self.queues().await?),
            (Kind::Table, self.tables().await?),
            (Kind::Role, self.roles(waits).await?),
            (Kind::LogGroup, groups.collect()),
        ];
        let all = all.into_iter().flat_map(|(kind, names)| {
            let ours = names.into_iter().filter(|name| Prefix::of(name).is_some());
            ours.map(move |name| Resource::new(kind, name))
        });
        Ok(all.collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn tables(&self) -> Result<Vec<String>> {
        let pages = self.dynamodb.list_tables().into_paginator().items().send();
        let tables = pages.collect::<std::result::Result<Vec<_>, _>>().await;
        tables.map_err(|error| VerifyError::of_sdk("dynamodb:ListTables", error))
    }

    async fn queues(&self) -> Result<Vec<String>> {
        let list = self.sqs.list_queues().queue_name_prefix(format!("{TAG}-"));
        let pages = list.max_results(1000).into_paginator().items().send();
        let urls = pages.collect::<std::result::Result<Vec<_>, _>>().await;
        let urls = urls.map_err(|error| VerifyError::of_sdk("sqs:ListQueues", error))?;
        let name = |url: &String| url.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(urls.iter().map(name).collect())
    }

    async fn roles(&self, waits: &Waits<'_>) -> Result<Vec<String>> {
        let (mut roles, mut marker) = (Vec::new(), None::<String>);
        loop {
            let mut parameters = vec![("PathPrefix", ROLE_PATH)];
            parameters.extend(marker.iter().map(|marker| ("Marker", &**marker)));
            let answer = self
                .requests
                .query(waits, "iam:ListRoles", &parameters)
                .await?;
            let names = answer.elements("RoleName").into_iter().map(str::to_owned);
            roles.extend(names);
            marker = answer
                .elements("Marker")
                .first()
                .map(|text| (*text).to_owned());
            if marker.is_none() {
                return Ok(roles);
            }
        }
    }

    async fn functions(&self, waits: &Waits<'_>) -> Result<Vec<String>> {
        let (mut functions, mut path) = (Vec::new(), "/2015-03-31/functions/".to_owned());
        loop {
            let list =
                self.requests
                    .lambda(waits, "lambda:ListFunctions", Method::GET, &path, None);
            let page = list.await?.json();
            let listed = page["Functions"].as_array().into_iter().flatten();
            functions.extend(listed.filter_map(|function| text(&function["FunctionName"])));
            let Some(next) = text(&page["NextMarker"]).filter(|next| !next.is_empty()) else {
                return Ok(functions);
            };
            let next =
                percent_encoding::utf8_percent_encode(&next, percent_encoding::NON_ALPHANUMERIC);
            path = format!("/2015-03-31/functions/?Marker={next}");
        }
    }
}

pub(super) fn incomplete(action: &str, what: &'static str) -> VerifyError {
    let action = action.to_owned();
    VerifyError::Incomplete { action, what }
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
