//! How requests are read and answers written.

use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::units::Units;

/// The successful answer to a request.
pub(crate) struct Done {
    pub(crate) body: String,
    pub(crate) statements: usize,
    pub(crate) units: Units,
}

/// What was consumed of a table.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Capacity<'a> {
    table_name: &'a str,
    capacity_units: f64,
}

impl<'a> Capacity<'a> {
    pub(crate) fn of(table_name: &'a str, units: Units) -> Self {
        Self {
            table_name,
            capacity_units: units.total(),
        }
    }

    pub(crate) fn asked_for(asked: Option<&str>, table: &'a str, units: Units) -> Option<Self> {
        is_asked_for(asked).then(|| Self::of(table, units))
    }
}

pub(crate) fn is_asked_for(asked: Option<&str>) -> bool {
    matches!(asked, Some("TOTAL" | "INDEXES"))
}

pub(crate) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::validation(error.to_string()))
}

pub(crate) fn done(answer: &impl Serialize, units: Units) -> Result<Done, ApiError> {
    let body = serde_json::to_string(answer);
    Ok(Done {
        body: body.map_err(|error| ApiError::validation(error.to_string()))?,
        statements: 0,
        units,
    })
}
