//! The order message.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A customer placed an order, which must be charged.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: String,
    pub(crate) customer_id: String,
    pub(crate) amount_cents: u64,
    /// ISO 4217 code, for example `EUR`.
    pub(crate) currency: String,
}

/// The order is invalid.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum InvalidOrder {
    #[error("the order has no customer")]
    Customer,
    #[error("the amount is zero")]
    Amount,
    #[error("the currency is not three capital letters")]
    Currency,
}

impl OrderPlaced {
    pub(crate) fn check(&self) -> Result<(), InvalidOrder> {
        let currency = self.currency.as_bytes();
        if self.customer_id.trim().is_empty() {
            Err(InvalidOrder::Customer)
        } else if self.amount_cents == 0 {
            Err(InvalidOrder::Amount)
        } else if currency.len() != 3 || !currency.iter().all(u8::is_ascii_uppercase) {
            Err(InvalidOrder::Currency)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(change: impl FnOnce(&mut OrderPlaced)) -> OrderPlaced {
        let mut order = OrderPlaced {
            order_id: "o-1001".to_owned(),
            customer_id: "c-7".to_owned(),
            amount_cents: 1299,
            currency: "EUR".to_owned(),
        };
        change(&mut order);
        order
    }

    #[test]
    fn only_an_order_that_can_be_charged_passes() {
        assert_eq!(order(|_| {}).check(), Ok(()));
        let no_customer = order(|order| order.customer_id.clear());
        assert_eq!(no_customer.check(), Err(InvalidOrder::Customer));
        let no_amount = order(|order| order.amount_cents = 0);
        assert_eq!(no_amount.check(), Err(InvalidOrder::Amount));
        for currency in ["", "eur", "EURO", "€"] {
            let no_currency = order(|order| order.currency = currency.to_owned());
            assert_eq!(no_currency.check(), Err(InvalidOrder::Currency));
        }
    }
}
