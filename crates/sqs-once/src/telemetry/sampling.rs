//! More detail for the invocations that are sampled.

use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use super::invocation::SAMPLED;

/// Lets through what `usual` does, and inside the span of a sampled invocation what `sampled` does.
pub(super) struct Sampling {
    pub(super) usual: Targets,
    pub(super) sampled: Targets,
}

impl Sampling {
    fn is_sampled<S>(context: &Context<'_, S>) -> bool
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let span = context.lookup_current();
        span.is_some_and(|span| span.scope().any(|span| span.metadata().target() == SAMPLED))
    }
}

impl<S> Filter<S> for Sampling
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        lets(&self.usual, metadata) || (lets(&self.sampled, metadata) && Self::is_sampled(context))
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match (lets(&self.usual, metadata), lets(&self.sampled, metadata)) {
            (true, _) => Interest::always(),
            (false, true) => Interest::sometimes(),
            (false, false) => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let most = Filter::<S>::max_level_hint;
        most(&self.usual).max(most(&self.sampled))
    }
}

fn lets(levels: &Targets, metadata: &Metadata<'_>) -> bool {
    levels.would_enable(metadata.target(), metadata.level())
}
