//! The names of everything that a run creates.

use sqs_once::random::{OsRandom, Random};
use std::fmt;

/// The start of all names, and the key of the tag.
pub(super) const TAG: &str = "sqs-once-verify";
/// The path of the roles, by which leftovers are found.
pub(super) const ROLE_PATH: &str = "/sqs-once-verify/";
const LOG_GROUP: &str = "/aws/lambda/";
const RANDOM: usize = 8;

/// A run's prefix, such as `sqs-once-verify-1f0c3a7e`. It is also the value of its tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn random() -> Self {
        let bits = OsRandom.bits() as u32;
        Self(format!("{TAG}-{bits:08x}"))
    }

    /// The prefix of a resource's name, if a run could have given it.
    pub(super) fn of(name: &str) -> Option<Self> {
        let name = name.strip_prefix(LOG_GROUP).unwrap_or(name);
        let rest = name.strip_prefix(TAG)?.strip_prefix('-')?;
        let (random, rest) = rest.split_at_checked(RANDOM)?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_ours = random.bytes().all(is_hex) && (rest.is_empty() || rest.starts_with('-'));
        is_ours.then(|| Self(format!("{TAG}-{random}")))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn table(&self, what: &str) -> Resource {
        Resource::new(Kind::Table, format!("{self}-{what}"))
    }

    pub(super) fn queue(&self) -> Resource {
        Resource::new(Kind::Queue, self.to_string())
    }

    pub(super) fn dead_letters(&self) -> Resource {
        Resource::new(Kind::Queue, format!("{self}-dead-letters"))
    }

    pub(super) fn role(&self) -> Resource {
        Resource::new(Kind::Role, self.to_string())
    }

    pub(super) fn function(&self) -> Resource {
        Resource::new(Kind::Function, self.to_string())
    }

    pub(super) fn log_group(&self) -> Resource {
        Resource::new(Kind::LogGroup, format!("{LOG_GROUP}{self}"))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kinds of resources, in the order of their deletion: the function before what it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// With its event source mapping and its logs' stream.
    Function,
    Queue,
    Table,
    Role,
    LogGroup,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource {
    pub(super) kind: Kind,
    pub(super) name: String,
}

impl Resource {
    pub(super) fn new(kind: Kind, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { kind, name }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Function => "function",
            Kind::Queue => "queue",
            Kind::Table => "table",
            Kind::Role => "role",
            Kind::LogGroup => "log group",
        };
        write!(f, "{kind} {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_prefix() {
        let prefix = Prefix::random();
        let all = [
            prefix.table("keys"),
            prefix.queue(),
            prefix.dead_letters(),
            prefix.role(),
            prefix.function(),
            prefix.log_group(),
        ];
        for resource in all {
            assert_eq!(
                Prefix::of(&resource.name),
                Some(prefix.clone()),
                "{resource}"
            );
        }
    }

    #[test]
    fn names_that_no_run_gives_have_no_prefix() {
        for name in [
            "orders",
            "sqs-once-verify",
            "sqs-once-verify-",
            "sqs-once-verify-1f0c3a7",
            "sqs-once-verify-1f0c3a7ef",
            "sqs-once-verify-1F0C3A7E",
            "sqs-once-verify-staging-1",
            "my-sqs-once-verify-1f0c3a7e",
        ] {
            assert_eq!(Prefix::of(name), None, "{name}");
        }
    }

    #[test]
    fn a_function_is_deleted_before_what_it_uses() {
        let prefix = Prefix::random();
        let mut all = [
            prefix.log_group(),
            prefix.role(),
            prefix.table("keys"),
            prefix.queue(),
            prefix.function(),
        ];
        all.sort();
        assert_eq!(all[0], prefix.function());
        assert_eq!(all[4], prefix.log_group());
    }
}
