//! The PartiQL that writes one item: `INSERT INTO … VALUE …` and `UPDATE … SET … WHERE …`.

use std::sync::Arc;

use super::condition::Condition;
use super::operand::Operand;
use super::parsed::{Part, Rule, first, word};
use super::update::Update;

/// One statement of a batch.
#[derive(Debug)]
pub(super) enum Statement {
    Insert {
        table: Arc<str>,
        attributes: Vec<(Arc<str>, Operand)>,
    },
    Update {
        table: Arc<str>,
        update: Update,
        condition: Condition,
    },
}

impl Statement {
    pub(super) fn of(part: Part<'_>) -> Self {
        let is_insert = part.as_rule() == Rule::insert;
        let mut inner = part.into_inner();
        let table = word(&first(&mut inner)).into();
        if !is_insert {
            return Self::Update {
                table,
                update: Update::of(first(&mut inner)),
                condition: Condition::of(first(&mut inner)),
            };
        }
        let attributes = inner.map(|member| {
            let mut inner = member.into_inner();
            let name = word(&first(&mut inner)).into();
            (name, Operand::of(first(&mut inner)))
        });
        Self::Insert {
            table,
            attributes: attributes.collect(),
        }
    }

    pub(super) fn table(&self) -> &Arc<str> {
        match self {
            Self::Insert { table, .. } | Self::Update { table, .. } => table,
        }
    }
}
