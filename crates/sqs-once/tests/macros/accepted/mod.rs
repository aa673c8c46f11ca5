//! Input that the macros accept.

#![allow(dead_code, unreachable_pub, reason = "handlers that no event reaches")]

mod batch_handler;
mod callable;
mod derive;
mod keys;
mod options;
mod places;

#[test]
fn every_way_to_write_a_handler_compiles_and_runs() {
    batch_handler::run();
    callable::run();
    derive::run();
    keys::run();
    options::run();
    places::run();
}
