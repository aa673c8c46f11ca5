/// A module for each guide. Only rustdoc reads them: a build is none the slower.
macro_rules! guides {
    ($($name:ident = $file:literal,)*) => {$(
        #[cfg_attr(all(doc, not(doctest)), doc = include_str!("guide/definitions.md"))]
        #[cfg_attr(doc, doc = include_str!(concat!("../docs/", $file)))]
        #[cfg_attr(not(doc), allow(missing_docs))]
        pub mod $name {}
    )*};
}

guides! {
    dev = "dev.md",
    doctor = "doctor.md",
    failure_modes = "failure-modes.md",
    metrics = "metrics.md",
    new = "new.md",
    operating = "operating.md",
    options = "options.md",
    page = "page.md",
    performance = "performance.md",
    reliability = "reliability.md",
    security = "security.md",
    template = "template.md",
    testing = "testing.md",
}

// Its examples are tested where their crates are: in sqs-once-postgres.
#[cfg(not(doctest))]
guides! {
    exactly_once = "exactly-once.md",
}
