//! One runtime for all runs of a thread.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: Runtime = {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_time().build().expect("a runtime needs nothing from outside")
    };
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(future))
}
