/// A module for each guide. Only rustdoc reads them, so builds are not slower.
macro_rules! guides {
    ($($name:ident = $file:literal,)*) => {$(
        #[cfg_attr(all(doc, not(doctest)), doc = include_str!("guide/links.md"))]
        #[cfg_attr(doc, doc = include_str!(concat!("../docs/", $file)))]
        #[cfg_attr(not(doc), allow(missing_docs))]
        pub mod $name {}
    )*};
}

guides! {
    assistants = "assistants.md",
    audit = "audit.md",
    choosing_a_key = "choosing-a-key.md",
    coming_from = "coming-from.md",
    cookbook = "cookbook.md",
    cost = "cost.md",
    dev = "dev.md",
    doctor = "doctor.md",
    envelopes = "envelopes.md",
    errors = "errors.md",
    exactly_once = "exactly-once.md",
    event_bus = "event-bus.md",
    executions = "executions.md",
    failure_modes = "failure-modes.md",
    faq = "faq.md",
    fifo = "fifo.md",
    first_consumer = "first-consumer.md",
    guarantees = "guarantees.md",
    handlers = "handlers.md",
    iam = "iam.md",
    large_messages = "large-messages.md",
    layers = "layers.md",
    limits = "limits.md",
    managed_instances = "managed-instances.md",
    metrics = "metrics.md",
    migrate_powertools = "migrate-powertools.md",
    new = "new.md",
    observability = "observability.md",
    operations = "operations.md",
    options = "options.md",
    outages = "outages.md",
    page = "page.md",
    performance = "performance.md",
    protocol = "protocol.md",
    reliability = "reliability.md",
    routes = "routes.md",
    schema_changes = "schema-changes.md",
    security = "security.md",
    template = "template.md",
    testing = "testing.md",
    timeouts = "timeouts.md",
    traces = "traces.md",
    troubleshooting = "troubleshooting.md",
    verify_aws = "verify-aws.md",
    without_sqs = "without-sqs.md",
    writes = "writes.md",
}

// The examples are tested in sqs-once-postgres, which has their dependencies.
#[cfg(not(doctest))]
guides! {
    postgresql = "postgresql.md",
}
