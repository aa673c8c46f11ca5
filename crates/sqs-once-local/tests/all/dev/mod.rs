//! A poller and the processes that it drives: what a developer sees of Lambda.

mod answers;
mod batches;
mod environments;
mod faults;
mod world;
