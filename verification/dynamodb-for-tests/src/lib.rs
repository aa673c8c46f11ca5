//! Amazon DynamoDB's tables for tests and benchmarks: in memory, without a network, deterministic, and quick.
//!
//! ```
//! use std::time::Duration;
//!
//! use dynamodb_for_tests::{KeyType, Schema, Tables};
//!
//! let mut tables = Tables::new();
//! tables.create("orders", Schema::partition_key("id", KeyType::S));
//! let put = br#"{
//!     "TableName": "orders",
//!     "Item": {"id": {"S": "o-1"}},
//!     "ConditionExpression": "attribute_not_exists(id)"
//! }"#;
//! assert_eq!(tables.carry_out("PutItem", put, Duration::ZERO).status, 200);
//! let refused = tables.carry_out("PutItem", put, Duration::ZERO);
//! assert_eq!(refused.status, 400);
//! assert!(refused.body.contains("ConditionalCheckFailedException"));
//! ```
//!
//! A request is DynamoDB's own: the name of its operation and its JSON. The operations are `GetItem`, `PutItem`,
//! `UpdateItem`, `DeleteItem`, `BatchGetItem`, `TransactWriteItems`, and `BatchExecuteStatement` with the PartiQL
//! statements `INSERT` and `UPDATE`. They decide as DynamoDB does, which is held against other implementations by
//! random operations. Its messages are not DynamoDB's in every word; its codes are.
//!
//! Left out: document paths such as `a.b[0]`, indexes, projections, the old parameters without expressions. A
//! request that needs one is refused with a `ValidationException`.

mod answer;
mod batch;
mod condition;
mod error;
mod lexer;
mod number;
mod operand;
mod parsed;
mod reads;
mod schema;
mod statement;
mod tables;
mod transaction;
mod units;
mod update;
mod value;
mod write;

pub use number::Number;
pub use schema::{KeyType, Schema};
pub use tables::{Answer, Tables};
pub use units::Units;
pub use value::{Bytes, Item, Set, Value};
