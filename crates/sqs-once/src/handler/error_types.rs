//! Error types that choose what happens to the message.

use std::any::type_name;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Disposition;

/// An error type that chooses what happens to the message, so that `?` is enough in a handler.
///
/// A handler must declare the type with [`errors`](crate::Handler::errors), because `?` makes a `HandlerError` of every
/// error, and only a declared type is found in it again. The attributes declare the type that their function returns: a
/// handler that returns `Result<(), PayError>` needs no declaration.
///
/// Derive it:
///
/// ```
/// use sqs_once::handler::ErrorDisposition;
/// use sqs_once::{HandlerError, IdempotencyToken};
///
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
/// # async fn charge_card(_: &OrderPlaced, _: &IdempotencyToken) -> Result<(), PayError> { Ok(()) }
/// #[derive(Debug, thiserror::Error, ErrorDisposition)]
/// enum PayError {
///     #[error("the card was declined")]
///     #[disposition(terminal)]
///     Declined,
///     #[error("too many requests")]
///     #[disposition(retry_after = "30s")]
///     Busy,
///     #[error("the payment service is down")]
///     #[disposition(unavailable = "payments")]
///     Down(#[source] std::io::Error),
///     #[error("no answer")]
///     #[disposition(outcome_unknown)]
///     NoAnswer,
///     #[error("something else")]
///     Other, // retried
/// }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// async fn charge(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
///     charge_card(&order, &token).await?;
///     Ok(())
/// }
///
/// let handler = charge::handler().errors::<PayError>().depends_on("payments");
/// ```
///
/// The choice counts for errors of the handler, its extractors, its layers, its hooks, an
/// [`AsyncDecode`](crate::body::AsyncDecode) and single messages of a batch handler, and for
/// [`KeyError::extractor`](crate::key::KeyError::extractor). It yields to a choice in the code, such as
/// [`terminal`](crate::ResultExt::terminal), and comes before
/// [`Dependency::unavailable_if`](crate::policy::Dependency::unavailable_if). Only the error itself counts, also in a `Box`
/// or an `Arc`, not a cause of it. A hook's error never counts for a breaker.
///
/// If the type tells that the outcome is unknown, no choice in the code hides it. It also counts for a cause of the error,
/// and in a handler that does not declare the type, if another handler of the process does.
///
/// An error in a key function's `Result` loses its type, and the message is terminal, unless the function wraps the error by
/// `KeyError::extractor`.
///
/// These conversions lose the type, so the error is retried: to text (`error.to_string()`), to another error that has it as
/// its cause, and to `anyhow::Error`. Convert an `anyhow::Error` back before `?`:
/// `.map_err(anyhow::Error::reallocate_into_boxed_dyn_error_without_backtrace)`.
///
/// # The attribute
///
/// `#[disposition(…)]` marks a variant of an enum, or a struct.
///
/// | attribute | the message |
/// |---|---|
/// | none, or `retry` | returns to the queue. Only `retry` also keeps `unavailable_if` from deciding |
/// | `retry_after = "30s"` | returns to the queue after this time: `ms`, `s`, `m`, `h` or `d` |
/// | `terminal` | is terminal |
/// | `unavailable = "payments"` | returns to the queue, and counts for the breaker of this dependency |
/// | `outcome_unknown`, alone or with another: `(terminal, outcome_unknown)` | the effect may have happened |
///
/// If the choice depends on a value, implement the trait by hand:
///
/// ```
/// use std::time::Duration;
///
/// use sqs_once::handler::ErrorDisposition;
/// use sqs_once::policy::Disposition;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("the service answered {0}")]
/// struct Answer(u16);
///
/// impl ErrorDisposition for Answer {
///     fn disposition(&self) -> Option<Disposition> {
///         match self.0 {
///             429 => Some(Disposition::RetryAfter(Duration::from_secs(30))),
///             400..500 => Some(Disposition::Terminal),
///             _ => None,
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose what happens to the message",
    label = "not an error type with a disposition",
    note = "derive `sqs_once::handler::ErrorDisposition` for it"
)]
pub trait ErrorDisposition: Error + 'static {
    /// Returns what happens to the message. `None` leaves it to the handler's dependencies: an error that none of them
    /// recognises is retried, and an error of a key extractor is terminal.
    fn disposition(&self) -> Option<Disposition>;

    /// Returns whether the effect may have happened: see
    /// [`HandlerError::into_outcome_unknown`](crate::HandlerError::into_outcome_unknown). Default: no.
    fn is_outcome_unknown(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy)]
struct ErrorType {
    name: &'static str,
    is_of: fn(&(dyn Error + 'static)) -> bool,
    disposition: fn(&(dyn Error + 'static)) -> Option<Disposition>,
    is_outcome_unknown: fn(&(dyn Error + 'static)) -> bool,
}

impl ErrorType {
    fn of<E: ErrorDisposition>() -> Self {
        Self {
            name: type_name::<E>(),
            is_of: |error| as_type::<E>(error).is_some(),
            disposition: |error| as_type::<E>(error)?.disposition(),
            is_outcome_unknown: |error| as_type(error).is_some_and(E::is_outcome_unknown),
        }
    }
}

/// Returns the error if it is an `E`, also in a `Box` or an `Arc`.
pub(crate) fn as_type<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let boxed = || error.downcast_ref::<Box<E>>().map(|error| &**error);
    let shared = || error.downcast_ref::<Arc<E>>().map(|error| &**error);
    error.downcast_ref().or_else(boxed).or_else(shared)
}

macro_rules! pointers {
    ($($pointer:ident)*) => {$(
        impl<E: ErrorDisposition> ErrorDisposition for $pointer<E> {
            fn disposition(&self) -> Option<Disposition> {
                (**self).disposition()
            }

            fn is_outcome_unknown(&self) -> bool {
                (**self).is_outcome_unknown()
            }
        }
    )*};
}

pointers!(Box Arc);

/// The types that any handler of this process has declared. An error of one of them in a handler that does not declare it is
/// most likely a forgotten declaration.
static DECLARED: Mutex<Vec<ErrorType>> = Mutex::new(Vec::new());

/// The note in the reason of a failure whose error's type was not asked.
pub(crate) const UNDECLARED: &str =
    "its type chooses what happens to the message, but this handler does not declare it";

/// Returns the type of an error, if any handler has declared it. The user's code then runs without the lock.
fn declared(error: &(dyn Error + 'static)) -> Option<ErrorType> {
    let declared = DECLARED.lock().unwrap_or_else(PoisonError::into_inner);
    declared.iter().find(|one| (one.is_of)(error)).copied()
}

/// Returns whether the type of an error tells that the effect may have happened. A handler need not declare the type itself:
/// a forgotten declaration must not repeat an effect.
pub(super) fn is_outcome_unknown(error: &(dyn Error + 'static)) -> bool {
    declared(error).is_some_and(|it| (it.is_outcome_unknown)(error))
}

/// The declared error types of a handler.
#[derive(Clone, Default)]
pub(crate) struct ErrorTypes(Arc<[ErrorType]>);

impl ErrorTypes {
    pub(crate) fn of<E: ErrorDisposition>() -> Self {
        let one = ErrorType::of::<E>();
        let mut declared = DECLARED.lock().unwrap_or_else(PoisonError::into_inner);
        if declared.iter().all(|known| known.name != one.name) {
            declared.push(one);
        }
        Self([one].into())
    }

    /// Returns the types of both.
    pub(crate) fn and(&self, others: &Self) -> Self {
        let all = self.0.iter().chain(others.0.iter());
        Self(all.copied().collect())
    }

    /// Returns how to declare the type of an error, if that was forgotten.
    pub(crate) fn undeclared(&self, error: &(dyn Error + 'static)) -> Option<String> {
        match self.0.iter().any(|one| (one.is_of)(error)) {
            true => None,
            false => {
                let known = declared(error).filter(|it| (it.disposition)(error).is_some())?;
                Some(format!("{UNDECLARED}: `.errors::<{}>()`", known.name))
            }
        }
    }

    /// Returns what an error's type chose, if it is declared.
    pub(crate) fn disposition(&self, error: &(dyn Error + 'static)) -> Option<Disposition> {
        self.0.iter().find_map(|one| (one.disposition)(error))
    }
}
