//! Books each payment on an account in PostgreSQL, exactly once: the statements and the key commit in one transaction.

use serde::Deserialize;
use sqs_once::{Consumer, Error, HandlerError, ResultExt};
use sqs_once_postgres::{PostgresStore, Transaction, without_values};

/// The function's own tables. `sqs_once_postgres::SCHEMA_V1` has the table of the keys.
#[cfg(test)]
const TABLES: &str = "
    CREATE TABLE accounts (id text PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
    CREATE TABLE entries (payment_id text PRIMARY KEY, account text NOT NULL, cents bigint NOT NULL);
";

#[derive(Deserialize)]
struct PaymentReceived {
    payment_id: String,
    account: String,
    cents: i64,
}

#[sqs_once::handler(key = payment.payment_id, namespace = "bookings")]
async fn book(payment: PaymentReceived, tx: Transaction) -> Result<(), HandlerError> {
    let add = "UPDATE accounts SET cents = cents + $2 WHERE id = $1";
    let added = tx.execute(add, &[&payment.account, &payment.cents]).await;
    if added.map_err(without_values)? == 0 {
        return Err("there is no such account").terminal();
    }
    let enter = "INSERT INTO entries (payment_id, account, cents) VALUES ($1, $2, $3)";
    tx.execute(
        enter,
        &[&payment.payment_id, &payment.account, &payment.cents],
    )
    .await
    .map_err(without_values)?;
    Ok(())
}

fn consumer(store: PostgresStore) -> Consumer {
    book::consumer().store(store)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(consumer(PostgresStore::from_env()?)).await
}

#[cfg(test)]
mod tests;
