//! The PartiQL that writes one item: `INSERT INTO … VALUE …` and `UPDATE … SET … REMOVE … WHERE …`.

use std::sync::Arc;

use crate::condition::Condition;
use crate::error::ApiError;
use crate::lexer::Tokens;
use crate::operand::Operand;
use crate::update::Update;

/// One statement of a batch.
#[derive(Debug)]
pub(crate) enum Statement {
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
    pub(crate) fn read(tokens: &mut Tokens) -> Result<Self, ApiError> {
        if tokens.keyword("INSERT") {
            tokens.expect_keyword("INTO")?;
            let table = tokens.name()?.into();
            tokens.expect_keyword("VALUE")?;
            tokens.expect_sign("{")?;
            let mut attributes: Vec<(Arc<str>, _)> = Vec::new();
            loop {
                let name = tokens.text()?.into();
                tokens.expect_sign(":")?;
                attributes.push((name, Operand::read(tokens)?));
                if !tokens.sign(",") {
                    break;
                }
            }
            tokens.expect_sign("}")?;
            return Ok(Self::Insert { table, attributes });
        }
        tokens.expect_keyword("UPDATE")?;
        let table = tokens.name()?.into();
        let mut update = Update::default();
        loop {
            if tokens.keyword("SET") {
                let name = tokens.name()?;
                tokens.expect_sign("=")?;
                update.set.push((name, Operand::read_sum(tokens)?));
            } else if tokens.keyword("REMOVE") {
                update.remove.push(tokens.name()?);
            } else {
                break;
            }
        }
        tokens.expect_keyword("WHERE")?;
        Ok(Self::Update {
            table,
            update,
            condition: Condition::read(tokens)?,
        })
    }

    pub(crate) fn table(&self) -> &Arc<str> {
        match self {
            Self::Insert { table, .. } | Self::Update { table, .. } => table,
        }
    }
}
