//! `GetQueueUrl`, `ListQueues` and `ListDeadLetterSourceQueues`.

use super::parameters::{count, read, text};
use super::{Answer, Api};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Page {
    queue_name_prefix: Option<String>,
    max_results: Option<i64>,
    next_token: Option<String>,
}

pub(super) fn url(api: &Api, request: &Value) -> Answer {
    let name = text(request, "QueueName")?;
    api.queues().queue(&name)?;
    Ok(json!({"QueueUrl": api.url(&name)}))
}

pub(super) fn list(api: &Api, request: &Value) -> Answer {
    let page: Page = read(request)?;
    let prefix = page.queue_name_prefix.clone().unwrap_or_default();
    let queues = api.queues();
    let mut names = queues.names();
    names.retain(|name| name.starts_with(&prefix));
    paged(api, "QueueUrls", &names, &page)
}

pub(super) fn dead_letter_sources(api: &Api, queue: &str, page: Page) -> Answer {
    let queues = api.queues();
    queues.queue(queue)?;
    // The only answer field whose name begins with a lower-case letter.
    paged(api, "queueUrls", &queues.sources(queue), &page)
}

/// The URLs of one page of names. The next page's token is the name of this page's last queue.
fn paged(api: &Api, answer: &str, names: &[&str], page: &Page) -> Answer {
    let most = count("MaxResults", page.max_results, 1..=1000, 1000)?;
    let after = page.next_token.as_deref().unwrap_or_default();
    let rest: Vec<_> = names.iter().filter(|name| **name > after).collect();
    let urls: Vec<_> = rest.iter().take(most).map(|name| api.url(name)).collect();
    let mut json = json!({answer: urls});
    if let (Some(_), Some(last), true) = (page.max_results, rest.get(most - 1), rest.len() > most) {
        json["NextToken"] = (**last).into();
    }
    Ok(json)
}
