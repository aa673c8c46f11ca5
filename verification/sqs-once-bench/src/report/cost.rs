//! The cost of a million messages: request units and Lambda's time, at the prices of us-east-1.

use serde::Serialize;

use super::Results;
use crate::contender::Contender;
use crate::measure::Cell;
use crate::table::Units;

/// Dollars for a million write request units, on demand, table class Standard, in November 2026
/// (<https://aws.amazon.com/dynamodb/pricing/on-demand/>, since 1 November 2024).
const WRITES: f64 = 0.625;
/// Dollars for a million read request units; from the same page.
const READS: f64 = 0.125;
/// Dollars for a GB-second of Lambda on arm64, first tier (<https://aws.amazon.com/lambda/pricing/>).
const GB_SECOND: f64 = 0.000_013_333_4;
/// Dollars for a million invocations; from the same page.
const INVOCATIONS: f64 = 0.20;
/// The memory, in MB, at which Lambda gives a function one whole virtual CPU.
const MEMORY_MB: f64 = 1769.0;

/// The names of the batches whose cost is reported.
const BATCHES: [&str; 2] = ["10 new", "100 new"];

/// What each kind of record consumes with Powertools, from its Python and TypeScript code. `_put_record` is one
/// conditional `PutItem`, which returns the conflicting item. `_update_record` is one `UpdateItem`. `_delete_record`
/// (after an error) is one `DeleteItem`. A cached key sends no request, and neither does an event without a key. A
/// second copy in the batch is one more refused `PutItem`. Powertools cannot record after the work.
const POWERTOOLS: [(&str, f64); 9] = [
    ("new key", 2.0),
    ("new key, alone in its batch", 2.0),
    ("failed attempt", 2.0),
    ("duplicate in a batch", 1.0),
    ("duplicate, the only one among 24 new keys", 1.0),
    ("duplicate, alone in its batch", 1.0),
    ("duplicate, cached", 0.0),
    ("second copy in one batch", 1.0),
    ("no key, unprotected", 0.0),
];

#[derive(Debug, Serialize)]
pub(super) struct RecordCost {
    pub(super) record: &'static str,
    pub(super) ours: Units,
    /// Dollars for a million records.
    pub(super) ours_dollars: f64,
    /// Write units with Powertools, which reads nothing; `None` if it has no such kind of record.
    pub(super) powertools_writes: Option<f64>,
    /// Dollars for a million records.
    pub(super) powertools_dollars: Option<f64>,
}

/// The cost of a million messages with new keys for one contender.
#[derive(Debug, Serialize)]
pub(super) struct MessageCost {
    pub(super) contender: &'static str,
    /// Dollars for its request units.
    pub(super) table: f64,
    /// Dollars for Lambda's time and invocations, for each measured batch of [`BATCHES`].
    pub(super) lambda: [Option<f64>; BATCHES.len()],
}

pub(super) fn record_costs(results: &Results) -> Vec<RecordCost> {
    let costs = results.consumptions.iter().map(|consumption| {
        let mut powertools = POWERTOOLS.iter();
        let writes = powertools.find(|(record, _)| *record == consumption.record);
        let writes = writes.map(|(_, writes)| *writes);
        RecordCost {
            record: consumption.record,
            ours: consumption.units,
            ours_dollars: of_units(consumption.units),
            powertools_writes: writes,
            powertools_dollars: writes.map(|write| of_units(Units { write, read: 0.0 })),
        }
    });
    costs.collect()
}

/// The cost of a million messages for every measured contender.
pub(super) fn message_costs(results: &Results) -> Vec<MessageCost> {
    let costs = Contender::all().into_iter().filter_map(|contender| {
        let cells = BATCHES.map(|shape| results.cell(contender.name, shape));
        let cell = cells.iter().flatten().next_back()?;
        Some(MessageCost {
            contender: contender.name,
            table: of_units(cell.units),
            lambda: cells.map(|cell| cell.map(of_time)),
        })
    });
    costs.collect()
}

/// Dollars for a million times these units.
fn of_units(units: Units) -> f64 {
    units.write * WRITES + units.read * READS
}

/// Dollars for a million records in batches of this size. Lambda bills whole milliseconds.
fn of_time(cell: &Cell) -> f64 {
    let batches = 1e6 / cell.records as f64;
    let gb_seconds = cell.latency_ms.median.ceil() / 1000.0 * MEMORY_MB / 1024.0;
    batches * (gb_seconds * GB_SECOND + INVOCATIONS / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Consumption, consumptions};

    fn results(consumptions: Vec<Consumption>) -> Results {
        Results {
            consumptions,
            ..Results::new(1)
        }
    }

    #[test]
    fn a_million_records_cost_their_units_at_the_prices_of_the_page() {
        let of = |record, write, read| Consumption {
            record,
            units: Units { write, read },
        };
        let costs = record_costs(&results(vec![
            of("new key", 2.0, 0.0),
            of("duplicate in a batch", 1.0, 1.0),
        ]));
        let dollars: Vec<_> = costs
            .iter()
            .map(|cost| (cost.ours_dollars, cost.powertools_dollars))
            .collect();
        // 2 × 0.625 for both; 0.625 + 0.125 for sqs-once, and 0.625 for Powertools.
        assert_eq!(dollars, [(1.25, Some(1.25)), (0.75, Some(0.625))]);
    }

    #[test]
    fn whatever_powertools_does_is_beside_what_sqs_once_does() {
        let counted = consumptions().unwrap();
        for (record, _) in POWERTOOLS {
            let is_it = |one: &Consumption| one.record == record;
            assert!(counted.iter().any(is_it), "no record is called {record:?}");
        }
    }
}
