//! Sends the messages, waits until each is handled or dead, and collects their effects.

use super::account::Account;
use super::deploy::Deployment;
use super::effects::Effects;
use super::error::VerifyError;
use super::messages::Order;
use super::names::Prefix;
use super::wait::Waits;
use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use sqs_once::aws_sdk_dynamodb::types::AttributeValue;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

type Result<T> = std::result::Result<T, VerifyError>;
type Row = HashMap<String, AttributeValue>;

const PER_REQUEST: usize = 10;
const PAUSE: Duration = Duration::from_secs(2);
/// SQS's counts are approximate, so they must be zero this many times in a row.
const EMPTY: u32 = 3;
/// Longer than reading all dead letters takes.
const HIDDEN: i32 = 900;
const READING: Duration = Duration::from_secs(600);

pub(super) struct Traffic<'a> {
    pub(super) account: &'a Account,
    pub(super) waits: &'a Waits<'a>,
    pub(super) deployment: &'a Deployment,
    /// How long the queue may take to become empty.
    pub(super) limit: Duration,
    /// The SQS requests of this command.
    pub(super) sqs_requests: Cell<u32>,
}

impl Traffic<'_> {
    fn count(&self) {
        self.sqs_requests.set(self.sqs_requests.get() + 1);
    }

    /// Sends all bodies, ten in a request.
    pub(super) async fn send(&self, bodies: &[String]) -> Result<()> {
        for chunk in bodies.chunks(PER_REQUEST) {
            let limit = Duration::from_secs(60);
            let rest = Cell::new((0..chunk.len()).collect::<Vec<_>>());
            let sent = async || {
                let left = self.send_some(chunk, rest.take()).await?;
                let is_done = left.is_empty();
                rest.set(left);
                Ok(is_done.then_some(()))
            };
            self.waits
                .until("SQS accepts the messages", limit, PAUSE, sent)
                .await?;
        }
        Ok(())
    }

    /// Sends the messages at these places, and returns the places of the messages that SQS did not accept.
    async fn send_some(&self, bodies: &[String], places: Vec<usize>) -> Result<Vec<usize>> {
        const ACTION: &str = "sqs:SendMessageBatch";
        self.count();
        let batch = self
            .account
            .sqs
            .send_message_batch()
            .queue_url(&self.deployment.queue_url);
        let entries = places.iter().filter_map(|place| {
            let entry = SendMessageBatchRequestEntry::builder().id(place.to_string());
            entry.message_body(bodies.get(*place)?).build().ok()
        });
        let sent = batch.set_entries(Some(entries.collect())).send().await;
        let sent = sent.map_err(|error| VerifyError::of_sdk(ACTION, error))?;
        if let Some(failed) = sent.failed.iter().find(|failed| failed.sender_fault) {
            let message = failed.message.as_deref().unwrap_or_default();
            return Err(VerifyError::said(ACTION, &failed.code, message));
        }
        let ids: Vec<_> = sent.successful.iter().map(|one| one.id()).collect();
        let is_sent = |place: &usize| ids.contains(&&*place.to_string());
        Ok(places.into_iter().filter(|place| !is_sent(place)).collect())
    }

    /// Waits until the queue has no message, in flight or not: each is handled, or in the dead-letter queue.
    pub(super) async fn until_empty(&self) -> Result<()> {
        let zeros = Cell::new(0);
        let empty = async || {
            match self.waiting().await? {
                0 => zeros.set(zeros.get() + 1),
                _ => zeros.set(0),
            }
            Ok((zeros.get() == EMPTY).then_some(()))
        };
        let what = "the queue is empty: the function may be failing, see its log group";
        self.waits.until(what, self.limit, PAUSE, empty).await
    }

    async fn waiting(&self) -> Result<u64> {
        self.count();
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let get = self
            .account
            .sqs
            .get_queue_attributes()
            .queue_url(&self.deployment.queue_url);
        let got = get.set_attribute_names(Some(names.to_vec())).send().await;
        let got = got.map_err(|error| VerifyError::of_sdk("sqs:GetQueueAttributes", error))?;
        let counts = got.attributes.unwrap_or_default().into_values();
        // A count that can't be read must not look like an empty queue.
        Ok(counts.map(|count| count.parse().unwrap_or(1)).sum())
    }

    /// Collects the effects in the tables and in the dead-letter queue.
    pub(super) async fn effects(&self, prefix: &Prefix, poison: usize) -> Result<Effects> {
        let (keys, orders, stock) = (
            prefix.table("keys"),
            prefix.table("orders"),
            prefix.table("stock"),
        );
        let keys = self.rows(&keys.name).await?;
        let completed = AttributeValue::S("COMPLETED".to_owned());
        let completed = keys
            .iter()
            .filter(|key| key.get("status") == Some(&completed));
        let orders = self.rows(&orders.name).await?;
        let stock = self.rows(&stock.name).await?;
        Ok(Effects {
            completed: completed.count() as u64,
            orders: orders.iter().map(order).collect(),
            reserved: stock
                .iter()
                .map(|row| (text(row, "article"), number(row, "reserved")))
                .collect(),
            dead: self.dead(poison).await?,
        })
    }

    async fn rows(&self, table: &str) -> Result<Vec<Row>> {
        let scan = self
            .account
            .dynamodb
            .scan()
            .table_name(table)
            .consistent_read(true);
        let rows = scan.into_paginator().items().send();
        let rows = self
            .waits
            .unless_interrupted(rows.collect::<std::result::Result<Vec<_>, _>>());
        rows.await?
            .map_err(|error| VerifyError::of_sdk("dynamodb:Scan", error))
    }

    /// Reads the dead-letter queue until it gives no more, and counts the messages by their bodies.
    async fn dead(&self, expected: usize) -> Result<BTreeMap<String, u64>> {
        let mut found = HashMap::new();
        let mut nothing = 0;
        let all = async || {
            self.count();
            let receive = self
                .account
                .sqs
                .receive_message()
                .queue_url(&self.deployment.dead_letters_url);
            let receive = receive
                .max_number_of_messages(10)
                .visibility_timeout(HIDDEN)
                .wait_time_seconds(1);
            let received = receive.send().await;
            let received =
                received.map_err(|error| VerifyError::of_sdk("sqs:ReceiveMessage", error))?;
            let messages = received.messages.unwrap_or_default();
            nothing = if messages.is_empty() { nothing + 1 } else { 0 };
            found.extend(messages.into_iter().map(|message| {
                (
                    message.message_id.unwrap_or_default(),
                    message.body.unwrap_or_default(),
                )
            }));
            // With fewer than expected, a longer look tells a loss from a delay.
            let patience = if found.len() >= expected {
                EMPTY
            } else {
                10 * EMPTY
            };
            Ok((nothing >= patience).then_some(()))
        };
        self.waits
            .until(
                "the dead-letter queue is read",
                READING,
                Duration::ZERO,
                all,
            )
            .await?;
        let mut counts = BTreeMap::new();
        for body in found.into_values() {
            *counts.entry(body).or_default() += 1;
        }
        Ok(counts)
    }
}

fn order(row: &Row) -> (String, Order) {
    let order = Order {
        article: text(row, "article"),
        pieces: number(row, "pieces"),
    };
    (text(row, "order_id"), order)
}

/// An attribute that is missing or has another type becomes a value that no order has.
fn text(row: &Row, name: &str) -> String {
    let value = row.get(name).and_then(|value| value.as_s().ok());
    value.cloned().unwrap_or_default()
}

fn number(row: &Row, name: &str) -> u64 {
    let value = row.get(name).and_then(|value| value.as_n().ok());
    value
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}
