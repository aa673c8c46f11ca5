//! What the tools of this library need and no function does. Any release may change it, so a tool pins the version:
//! `sqs-once = "=0.1.0"`.

use crate::consumer::Consumer;
use crate::random::OsRandom;
use crate::store::Owner;

#[cfg(all(feature = "conformance", feature = "dynamodb"))]
pub use crate::conformance::attributes::{from_attributes, to_attributes};
#[cfg(feature = "conformance")]
pub use crate::conformance::claim::{claim, fresh_seeds};
pub use crate::idempotency::{
    Admission, Completed, Refusal, block, breaker, carried_over, ends_refused, on_claimed,
    on_committed, on_completed, on_found, on_found_under_other_id, on_refused, takes_over,
};
pub use crate::key::json_pointer::JsonPointer;
pub use crate::random::Random;
pub use crate::record::RESTARTS;
#[cfg(feature = "dynamodb")]
pub use crate::store::dynamodb::operate::{Listed, Listing, Page, PageStart, page, replace};
#[cfg(feature = "testing")]
pub use crate::testing::{running::Running, settings::Simulated};
pub use crate::time::Clock;

/// Returns an owner that no other attempt has.
pub fn new_owner() -> Owner {
    Owner::from_bits(OsRandom.bits())
}

/// Returns the consumer with requests of one key to its store, as `SQS_ONCE_REQUESTS=single` sets it.
pub fn with_single_requests(consumer: Consumer) -> Consumer {
    consumer.with_single_requests()
}
