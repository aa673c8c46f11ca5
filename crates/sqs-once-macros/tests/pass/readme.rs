//! The handler as the README shows it.

use serde::Deserialize;
use sqs_once::{Error, HandlerError, IdempotencyToken, ResultExt};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    card: String,
    amount_cents: u64,
}

struct Card;

fn parse_card(card: &str) -> Result<Card, std::num::ParseIntError> {
    card.parse::<u64>().map(|_| Card)
}

mod payments {
    use super::{Card, IdempotencyToken};

    pub async fn charge(_: Card, _: u64, _: &IdempotencyToken) -> std::io::Result<()> {
        Ok(())
    }
}

/// Charges the card for one order, once.
#[sqs_once::handler(key = order.order_id)]
async fn charge(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
    let card = parse_card(&order.card).terminal()?;
    payments::charge(card, order.amount_cents, &token).await?;
    Ok(())
}

async fn start() -> Result<(), Error> {
    sqs_once::run(charge::consumer()).await
}

fn main() {
    let _starts = start();
}
