//! Values of user types, which may panic when they are dropped.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::error;

#[cfg(panic = "abort")]
compile_error!(
    "a handler that panics must fail its message and not its process: set `panic = \"unwind\"` in \
     the profile that is built, which is `[profile.release]` for `cargo lambda build`: it sets \"abort\" where the \
     workspace's Cargo.toml sets nothing"
);

/// Holds a value of a user type. The batch continues even if dropping it panics.
pub(crate) struct Guarded<T>(Option<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn empty() -> Self {
        Self(None)
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take()
    }

    pub(crate) fn get(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }

    #[cfg(feature = "dynamodb")]
    pub(crate) fn get_ref(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T> Default for Guarded<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        if let Err(panic) = caught(|| drop(value)) {
            error!(panic, "something panicked while it was dropped");
        }
    }
}

/// Runs user code. Returns the message of a panic as the error.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = message(&*panic);
        // The panic's payload is a user value too.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(another);
        }
        message
    })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("(no message)"))
}
