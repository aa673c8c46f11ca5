//! Input that the macros accept: each form compiles.

#![allow(
    dead_code,
    unreachable_pub,
    unused_variables,
    reason = "handlers that no event reaches"
)]

mod batch_handler;
mod derive;
mod keys;
mod options;
mod places;
