//! The PartiQL that writes one item: `INSERT INTO … VALUE …` and `UPDATE … SET … WHERE …`.

use std::sync::Arc;

use super::error::ApiError;
use super::expression::{Condition, Operand, Update};
use super::lexer::Tokens;

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
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut tokens = Tokens::new(text)?;
        let mut parameters = 0;
        let statement = if tokens.keyword("INSERT") {
            tokens.expect_keyword("INTO")?;
            let table = tokens.name()?.into();
            tokens.expect_keyword("VALUE")?;
            tokens.expect_sign("{")?;
            let mut attributes = Vec::new();
            loop {
                let name = tokens.name()?;
                tokens.expect_sign(":")?;
                attributes.push((name.into(), Operand::read(&mut tokens, &mut parameters)?));
                if !tokens.sign(",") {
                    break;
                }
            }
            tokens.expect_sign("}")?;
            Self::Insert { table, attributes }
        } else {
            tokens.expect_keyword("UPDATE")?;
            let table = tokens.name()?.into();
            let mut update = Update::default();
            while tokens.keyword("SET") {
                let name = tokens.name()?;
                tokens.expect_sign("=")?;
                let value = Operand::read(&mut tokens, &mut parameters)?;
                update.set.push((name, value));
            }
            while tokens.keyword("REMOVE") {
                update.remove.push(tokens.name()?);
            }
            tokens.expect_keyword("WHERE")?;
            let condition = Condition::read(&mut tokens, &mut parameters)?;
            Self::Update {
                table,
                update,
                condition,
            }
        };
        tokens.expect_end()?;
        Ok(statement)
    }
}
