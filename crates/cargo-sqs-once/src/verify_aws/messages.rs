//! The messages that the command sends, and what must become of each.

use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The fewest messages that contain every kind.
pub(super) const FEWEST: u32 = 100;

/// Orders per article. Few, because transactions that update one article's item at the same time refuse each other.
const PER_ARTICLE: u32 = 20;

/// An order, as the function stores it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    pub(super) article: String,
    pub(super) pieces: u64,
}

/// Two waves of messages. The second one needs the effects of the first.
pub(super) struct Messages {
    pub(super) first: Vec<String>,
    pub(super) second: Vec<String>,
    /// The orders, by their ids.
    pub(super) orders: BTreeMap<String, Order>,
    /// The bodies that must reach the dead-letter queue. Each is unique.
    pub(super) poison: BTreeSet<String>,
    /// How many messages repeat the business key of another one with the same content.
    pub(super) duplicates: usize,
    /// How many messages fail in every delivery, so that SQS itself moves them to the dead-letter queue.
    pub(super) retried: usize,
}

impl Messages {
    /// Makes `count` messages, at least [`FEWEST`]. A tenth repeats an order next to it, and a tenth repeats an order
    /// after it was handled. One message in a hundred is not an order, one is an order for no pieces, and one conflicts
    /// with an order that was handled.
    pub(super) fn new(count: u32) -> Self {
        let count = count.max(FEWEST);
        let (tenth, hundredth) = (count / 10, count / 100);
        let orders = count - 2 * tenth - 3 * hundredth;
        let mut messages = Self {
            first: Vec::new(),
            second: Vec::new(),
            orders: BTreeMap::new(),
            poison: BTreeSet::new(),
            duplicates: 2 * tenth as usize,
            retried: hundredth as usize,
        };
        for n in 0..orders {
            let (id, order) = order(n, orders);
            let body = body(&id, &order.article, order.pieces);
            messages.orders.insert(id.clone(), order.clone());
            if n < hundredth {
                let conflict = self::body(&id, &order.article, order.pieces + 1000);
                messages.poison(Wave::Second, conflict);
                messages.poison(Wave::First, format!("not an order: {n}"));
                let empty = self::body(&format!("empty-{n}"), &order.article, 0);
                messages.poison(Wave::First, empty);
            }
            if n < tenth {
                messages.first.push(body.clone());
            }
            // Not of an order with a conflict: a copy in the same batch would fail together with the conflicting order.
            if (hundredth..hundredth + tenth).contains(&n) {
                messages.second.push(body.clone());
            }
            messages.first.push(body);
        }
        messages
    }

    fn poison(&mut self, wave: Wave, body: String) {
        self.poison.insert(body.clone());
        match wave {
            Wave::First => self.first.push(body),
            Wave::Second => self.second.push(body),
        }
    }

    /// The pieces of each article that the orders reserve.
    pub(super) fn reserved(&self) -> BTreeMap<String, u64> {
        let mut reserved = BTreeMap::new();
        for order in self.orders.values() {
            *reserved.entry(order.article.clone()).or_default() += order.pieces;
        }
        reserved
    }

    pub(super) fn count(&self) -> usize {
        self.first.len() + self.second.len()
    }
}

enum Wave {
    First,
    Second,
}

fn order(n: u32, of: u32) -> (String, Order) {
    let articles = of.div_ceil(PER_ARTICLE);
    let order = Order {
        article: format!("article-{}", n % articles),
        pieces: u64::from(n % 7 + 1),
    };
    (format!("o-{n}"), order)
}

fn body(id: &str, article: &str, pieces: u64) -> String {
    json!({ "order_id": id, "customer_id": "c-7", "article": article, "pieces": pieces })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The business key and the content of a body that the function accepts.
    fn read(body: &str) -> Option<(String, Order)> {
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        let order = Order {
            article: body["article"].as_str()?.to_owned(),
            pieces: body["pieces"].as_u64().filter(|pieces| *pieces > 0)?,
        };
        Some((body["order_id"].as_str()?.to_owned(), order))
    }

    #[test]
    fn exactly_as_many_messages_are_made_as_were_asked_for() {
        for count in [FEWEST, 101, 399, 10_000] {
            assert_eq!(Messages::new(count).count(), count as usize);
        }
        assert_eq!(Messages::new(1).count(), FEWEST as usize);
    }

    #[test]
    fn every_message_is_an_order_a_copy_of_one_or_poison() {
        let messages = Messages::new(1_000);
        let all: Vec<_> = messages.first.iter().chain(&messages.second).collect();
        let good = all.iter().filter(|body| !messages.poison.contains(**body));
        let good: Vec<_> = good.map(|body| read(body).unwrap()).collect();
        let orders: BTreeMap<_, _> = good.iter().cloned().collect();
        assert_eq!(orders, messages.orders);
        assert_eq!(good.len(), messages.orders.len() + messages.duplicates);
        assert_eq!(all.len(), good.len() + messages.poison.len());
    }

    #[test]
    fn a_conflicting_order_comes_only_after_the_order_that_it_conflicts_with() {
        let messages = Messages::new(1_000);
        let conflicts = |wave: &[String]| {
            let read = wave.iter().filter_map(|body| read(body));
            let differs = |(id, order): &(String, Order)| &messages.orders[id] != order;
            read.filter(differs).count()
        };
        assert_eq!(conflicts(&messages.first), 0);
        assert_eq!(conflicts(&messages.second), messages.retried);
        assert_eq!(messages.retried, 10);
    }

    #[test]
    fn no_copy_can_share_a_batch_with_a_conflicting_order() {
        let messages = Messages::new(1_000);
        let keys = messages.second.iter().filter_map(|body| read(body));
        let keys: Vec<_> = keys.map(|(id, _)| id).collect();
        let different: BTreeSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }

    #[test]
    fn some_orders_come_twice_in_a_row_and_again_later() {
        let messages = Messages::new(1_000);
        let adjacent = messages.first.windows(2).filter(|pair| pair[0] == pair[1]);
        let (adjacent, later) = (adjacent.count(), messages.second.len() - messages.retried);
        assert_eq!((adjacent, later), (100, 100));
    }
}
