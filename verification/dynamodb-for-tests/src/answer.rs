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
    /// These two are of transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    write_capacity_units: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_capacity_units: Option<f64>,
}

impl<'a> Capacity<'a> {
    pub(crate) fn of(table_name: &'a str, units: Units) -> Self {
        Self {
            table_name,
            capacity_units: units.total(),
            write_capacity_units: None,
            read_capacity_units: None,
        }
    }

    pub(crate) fn of_transaction(table_name: &'a str, units: Units) -> Self {
        let some = |units: f64| Some(units).filter(|units| *units > 0.0);
        Self {
            write_capacity_units: some(units.write),
            read_capacity_units: some(units.read),
            ..Self::of(table_name, units)
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
