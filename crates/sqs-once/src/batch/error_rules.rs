//! What the errors of a handler mean.

use std::error::Error;
use std::sync::Arc;

use crate::breaker::Dependency;
use crate::error::Disposition;
use crate::failed::Cause;
use crate::guarded::caught;
use crate::handler::{Decide, ErrorTypes, HandlerError};
use crate::report::{Code, Reason};

use super::handling::Failure;

/// The rules by which an error gets its meaning, in this order: the choice in the code, that of the error's type, and the
/// dependency that recognises it.
#[derive(Clone, Default)]
pub(crate) struct ErrorRules {
    pub(crate) types: ErrorTypes,
    pub(crate) dependencies: Vec<Dependency>,
}

impl ErrorRules {
    /// Returns the rules of a route: its own, and those of its router that it does not replace.
    pub(crate) fn within(&self, router: &Self) -> Self {
        let own = self.dependencies.iter();
        let is_own = |one: &&Dependency| !own.clone().any(|own| own.name() == one.name());
        let more = router.dependencies.iter().filter(is_own);
        Self {
            types: self.types.and(&router.types),
            dependencies: own.clone().chain(more).cloned().collect(),
        }
    }

    /// Applies the rules to an error of which nothing in the code chose the meaning.
    fn decided(&self, error: HandlerError) -> HandlerError {
        let error = error.decided_by(&self.types);
        let mut dependencies = self.dependencies.iter();
        match dependencies.find(|it| !error.is_decided() && it.recognises(&error)) {
            Some(dependency) => error.into_unavailable(dependency.name()),
            None => error,
        }
    }

    /// Returns the rules for layers.
    pub(super) fn decide(self: &Arc<Self>) -> Decide {
        let rules = Arc::clone(self);
        Arc::new(move |error| rules.decided(error))
    }

    /// Converts an error. Formatting it runs user code, which may panic.
    pub(super) fn failure(&self, error: HandlerError) -> Failure {
        let error = self.decided(error);
        let answered = error.answered_by().cloned();
        let outcome_is_unknown = error.is_outcome_unknown();
        let mut reason = code(&error).because(error.chain());
        let delay = match error.disposition() {
            Disposition::Terminal => {
                return Failure::Terminal {
                    cause: Cause {
                        reason: error.to_string(),
                        ..Cause::from(reason)
                    },
                    answered,
                    outcome_is_unknown,
                };
            }
            Disposition::Unavailable(dependency) => {
                let mut known = self.dependencies.iter();
                if known.any(|known| *known.name() == dependency) {
                    return Failure::Unavailable {
                        dependency,
                        reason: reason.text,
                        outcome_is_unknown,
                    };
                }
                reason.text += &format!(
                    " (unavailable: {dependency:?}, on which the handler does not depend: declare it with \
                     `.depends_on({dependency:?})`)"
                );
                None
            }
            #[cfg(feature = "sqs")]
            Disposition::RetryAfter(delay) => Some(delay),
            Disposition::Retry => None,
        };
        if let Some(undeclared) = error.undeclared(&self.types) {
            reason.text = format!("{undeclared}; {}", reason.text);
        }
        Failure::Retry {
            reason,
            delay,
            answered,
            outcome_is_unknown,
        }
    }

    /// Converts the error of a key extractor, if its type chose what happens to the message. The error's own text may
    /// contain the key, so the reason is `shown`.
    pub(super) fn failure_of_extractor(
        &self,
        error: &(dyn Error + 'static),
        shown: String,
    ) -> Option<Failure> {
        let chosen = caught(|| self.types.disposition(error)).ok()??;
        let chosen = HandlerError::new(chosen, Code::ExtractorFailed.because(shown));
        Some(self.failure(chosen))
    }

    /// Returns how to declare the type of a key extractor's error, if that was forgotten.
    pub(super) fn undeclared(&self, error: &(dyn Error + 'static)) -> Option<String> {
        caught(|| self.types.undeclared(error)).ok()?
    }

    /// Converts the error of one record of a batch handler. A panic fails only this record.
    pub(super) fn failure_of_record(&self, error: HandlerError) -> Failure {
        // Dropping it runs user code too.
        caught(move || self.failure(error)).unwrap_or_else(Failure::Panic)
    }
}

/// Returns the code of an error: that of a handler's error, unless this library made it from a reason.
fn code(error: &HandlerError) -> Code {
    let source = error.causes().next();
    let reason = source.and_then(|source| source.downcast_ref::<Reason>());
    reason.map_or(Code::HandlerError, |reason| reason.code)
}
