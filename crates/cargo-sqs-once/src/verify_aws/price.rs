//! What a run costs, before it and after it.

use super::Architecture;
use super::deploy::{DELIVERIES, MEMORY_MB};
use super::latency::STATEMENTS;
use super::messages::Messages;

// us-east-1, on demand, November 2026, without any free tier.
const WRITE_UNIT: f64 = 0.625e-6;
const READ_UNIT: f64 = 0.125e-6;
const ARM_GB_SECOND: f64 = 0.000_013_333_4;
const X86_GB_SECOND: f64 = 0.000_016_666_7;
const INVOCATION: f64 = 0.20e-6;
const SQS_REQUEST: f64 = 0.40e-6;
const LOG_GB: f64 = 0.50;

/// More than the conformance suite sends.
const SUITE: f64 = 2_000.0;
/// Bytes of log for each delivery, as in the guide on cost.
const LOGGED: f64 = 512.0;

/// What AWS charges for. `None` is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) write_units: Option<f64>,
    pub(super) read_units: Option<f64>,
    pub(super) invocations: Option<f64>,
    pub(super) billed_seconds: Option<f64>,
    pub(super) sqs_requests: Option<f64>,
    pub(super) log_bytes: Option<f64>,
}

/// One line of a bill.
pub(super) struct Line {
    pub(super) what: &'static str,
    pub(super) amount: Option<f64>,
    /// In dollars.
    pub(super) price: f64,
}

impl Line {
    pub(super) fn dollars(&self) -> Option<f64> {
        self.amount.map(|amount| amount * self.price)
    }
}

impl Usage {
    /// The most that a run should use. AWS counts each write of a transaction twice, and a refused one like another.
    pub(super) fn expected(messages: &Messages, cold_starts: u32) -> Self {
        let failing = messages.retried as f64 * f64::from(DELIVERIES - 1);
        let deliveries = messages.count() as f64 + failing;
        // A key, an order and an article in each transaction; the item of a key that is taken is read.
        let writes = deliveries * 3.0 * 2.0 + STATEMENTS as f64 * 2.0 + SUITE;
        let invocations = deliveries / 5.0 + f64::from(cold_starts);
        Self {
            write_units: Some(writes),
            read_units: Some(deliveries + SUITE + messages.orders.len() as f64),
            invocations: Some(invocations),
            billed_seconds: Some(invocations * 0.5),
            // Sent, received and deleted, and five pollers that ask an empty queue for half an hour.
            sqs_requests: Some(deliveries * 3.0 / 5.0 + 5.0 * 90.0),
            log_bytes: Some(deliveries * LOGGED),
        }
    }

    pub(super) fn bill(&self, architecture: Architecture) -> [Line; 6] {
        let gb_second = match architecture {
            Architecture::Arm64 => ARM_GB_SECOND,
            Architecture::X86_64 => X86_GB_SECOND,
        };
        let line = |what, amount, price| Line {
            what,
            amount,
            price,
        };
        let second = gb_second * f64::from(MEMORY_MB) / 1024.0;
        [
            line("DynamoDB write units", self.write_units, WRITE_UNIT),
            line("DynamoDB read units", self.read_units, READ_UNIT),
            line("Lambda invocations", self.invocations, INVOCATION),
            line("Lambda seconds billed", self.billed_seconds, second),
            line("SQS requests", self.sqs_requests, SQS_REQUEST),
            line("bytes of log", self.log_bytes, LOG_GB / 1e9),
        ]
    }

    /// The sum of all known lines, in dollars.
    pub(super) fn dollars(&self, architecture: Architecture) -> f64 {
        let bill = self.bill(architecture);
        bill.iter().filter_map(Line::dollars).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_ten_thousand_messages_costs_cents_and_twice_as_many_cost_more() {
        let cost = |count| {
            let usage = Usage::expected(&Messages::new(count), 5);
            usage.dollars(Architecture::Arm64)
        };
        let (small, large) = (cost(10_000), cost(20_000));
        assert!((0.01..0.5).contains(&small), "{small}");
        assert!(small < large && large < 2.0 * small, "{small} {large}");
    }

    #[test]
    fn what_is_not_known_costs_nothing_and_has_no_price() {
        let known = Usage {
            write_units: Some(1_000_000.0),
            ..Usage::default()
        };
        assert_eq!(known.dollars(Architecture::Arm64), 0.625);
        let bill = known.bill(Architecture::Arm64);
        assert_eq!(
            bill.iter().filter(|line| line.dollars().is_some()).count(),
            1
        );
    }

    #[test]
    fn a_million_requests_cost_what_the_guide_says() {
        let million = |usage: Usage| (usage.dollars(Architecture::Arm64) * 1000.0).round() / 1000.0;
        let reads = Usage {
            read_units: Some(1e6),
            ..Usage::default()
        };
        assert_eq!(million(reads), 0.125);
        let logs = Usage {
            log_bytes: Some(6e9),
            ..Usage::default()
        };
        assert_eq!(million(logs), 3.0);
    }
}
