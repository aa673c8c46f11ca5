//! Tests the poller and its processes, as a developer sees them.

mod answers;
mod batches;
mod environments;
mod faults;
mod world;
