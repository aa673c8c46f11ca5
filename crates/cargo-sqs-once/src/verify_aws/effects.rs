//! Compares the effects that were found with those that the messages must have.

use super::messages::{Messages, Order};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// What the run left in the tables and in the dead-letter queue.
#[derive(Default)]
pub(super) struct Effects {
    /// The rows of the table of orders, by their ids.
    pub(super) orders: BTreeMap<String, Order>,
    /// The reserved pieces of each article.
    pub(super) reserved: BTreeMap<String, u64>,
    /// The number of keys that are recorded as completed.
    pub(super) completed: u64,
    /// The number of messages in the dead-letter queue, by their bodies.
    pub(super) dead: BTreeMap<String, u64>,
}

/// One promise, and how it turned out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) promise: &'static str,
    /// The count, or the fault.
    pub(super) found: Result<String, String>,
}

impl Check {
    pub(super) fn holds(&self) -> bool {
        self.found.is_ok()
    }
}

/// Checks every effect.
pub(super) fn checks(messages: &Messages, effects: &Effects) -> Vec<Check> {
    let orders = messages.orders.len() as u64;
    let completed = match effects.completed == orders {
        true => Ok(format!("{orders} keys")),
        false => Err(format!("{} keys, not {orders}", effects.completed)),
    };
    let poison = messages.poison.iter().map(|body| (body.clone(), ()));
    let dead = effects.dead.keys().map(|body| (body.clone(), ()));
    let copies = effects.dead.values().sum::<u64>() - effects.dead.len() as u64;
    let dead = same(&poison.collect(), &dead.collect(), "messages").map(|count| match copies {
        0 => count,
        // SQS and the function both promise to deliver at least once.
        _ => format!("{count}; {copies} of them more than once"),
    });
    let reserved = same(&messages.reserved(), &effects.reserved, "articles");
    vec![
        Check {
            promise: "each order is stored with its own content",
            found: same(&messages.orders, &effects.orders, "orders"),
        },
        Check {
            promise: "each article's reserved pieces are exactly the sum of its orders",
            found: reserved,
        },
        Check {
            promise: "exactly the keys of the orders are completed",
            found: completed,
        },
        Check {
            promise: "exactly the poison is in the dead-letter queue",
            found: dead,
        },
    ]
}

/// Compares two maps. Describes the first few differences.
fn same<V: Debug + PartialEq>(
    expected: &BTreeMap<String, V>,
    found: &BTreeMap<String, V>,
    unit: &str,
) -> Result<String, String> {
    const SHOWN: usize = 5;
    let missing = expected.iter().filter_map(|(key, value)| {
        let other = found.get(key);
        (other != Some(value)).then(|| match other {
            None => format!("`{key}` is missing"),
            Some(other) => format!("`{key}` has {other:?}, not {value:?}"),
        })
    });
    let more = found.keys().filter(|key| !expected.contains_key(*key));
    let more = more.map(|key| format!("`{key}` is too much"));
    let differences: Vec<_> = missing.chain(more).collect();
    match differences.len() {
        0 => Ok(format!("{} {unit}", expected.len())),
        all => {
            let shown = differences[..all.min(SHOWN)].join("; ");
            Err(format!(
                "{all} of {} {unit} differ: {shown}",
                expected.len()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effects of a run in which everything went well.
    fn perfect(messages: &Messages) -> Effects {
        Effects {
            orders: messages.orders.clone(),
            reserved: messages.reserved(),
            completed: messages.orders.len() as u64,
            dead: messages
                .poison
                .iter()
                .map(|body| (body.clone(), 1))
                .collect(),
        }
    }

    /// The promises that are broken after `spoil` has changed perfect effects.
    fn broken(spoil: impl FnOnce(&mut Effects)) -> Vec<&'static str> {
        let messages = Messages::new(100);
        let mut effects = perfect(&messages);
        spoil(&mut effects);
        let checks = checks(&messages, &effects).into_iter();
        let broken = checks.filter(|check| !check.holds());
        broken.map(|check| check.promise).collect()
    }

    const STORED: &str = "each order is stored with its own content";
    const RESERVED: &str = "each article's reserved pieces are exactly the sum of its orders";
    const COMPLETED: &str = "exactly the keys of the orders are completed";
    const DEAD: &str = "exactly the poison is in the dead-letter queue";

    #[test]
    fn perfect_effects_break_no_promise() {
        assert!(broken(|_| {}).is_empty());
    }

    #[test]
    fn a_lost_order_is_found() {
        assert_eq!(broken(|it| drop(it.orders.pop_first())), [STORED]);
    }

    #[test]
    fn an_order_of_another_message_is_found() {
        let other = |it: &mut Effects| it.orders.values_mut().next().unwrap().pieces += 1000;
        assert_eq!(broken(other), [STORED]);
    }

    #[test]
    fn pieces_that_were_reserved_twice_are_found() {
        let twice = |it: &mut Effects| *it.reserved.values_mut().next().unwrap() += 1;
        assert_eq!(broken(twice), [RESERVED]);
    }

    #[test]
    fn a_key_without_an_effect_is_found() {
        assert_eq!(broken(|it| it.completed += 1), [COMPLETED]);
    }

    #[test]
    fn poison_that_vanished_and_orders_that_died_are_found() {
        assert_eq!(broken(|it| drop(it.dead.pop_first())), [DEAD]);
        let good = |it: &mut Effects| {
            it.dead.insert("an order".to_owned(), 1);
        };
        assert_eq!(broken(good), [DEAD]);
    }

    #[test]
    fn poison_that_was_delivered_twice_is_reported_and_breaks_nothing() {
        let messages = Messages::new(100);
        let mut effects = perfect(&messages);
        *effects.dead.values_mut().next().unwrap() = 3;
        let checks = checks(&messages, &effects);
        let dead = checks.iter().find(|check| check.promise == DEAD).unwrap();
        assert_eq!(
            dead.found,
            Ok("3 messages; 2 of them more than once".to_owned())
        );
    }

    #[test]
    fn many_differences_are_counted_and_the_first_are_shown() {
        let messages = Messages::new(100);
        let found = checks(&messages, &Effects::default()).remove(0).found;
        let text = found.unwrap_err();
        assert!(
            text.starts_with("77 of 77 orders differ: `o-0` is missing; `o-1` is missing"),
            "{text}"
        );
        assert_eq!(text.matches("is missing").count(), 5, "{text}");
    }
}
