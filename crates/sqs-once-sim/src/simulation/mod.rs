//! The whole consumer in simulated time, among queues, processes, clocks and networks that fail it.

pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod timeline;
