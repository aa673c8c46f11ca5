//! The engine in which one record's path is one async function. It exists in debug builds, beside the one in use, until it
//! holds everything that the other does: `TEST_ENGINE=path cargo test` runs it.

mod batcher;
mod call;
mod claims;
mod ending;
mod gate;
mod lane;
mod leaders;
mod line;
mod record;
mod room;
mod run;
mod settlements;
mod stop;
mod together;

pub(super) use run::run;
