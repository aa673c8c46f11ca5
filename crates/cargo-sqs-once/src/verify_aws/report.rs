//! The report, which can be attached to an issue.

use super::Architecture;
use super::effects::Check;
use super::latency::{Statement, Times};
use super::messages::Messages;
use super::price::Usage;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

const UNKNOWN: &str = "not available";

/// Everything that a run found out.
pub(super) struct Report<'a> {
    pub(super) region: &'a str,
    pub(super) architecture: Architecture,
    pub(super) started: SystemTime,
    pub(super) took: Duration,
    pub(super) messages: &'a Messages,
    pub(super) checks: Vec<Check>,
    pub(super) statements: Vec<Statement>,
    pub(super) cold_starts: Times,
    pub(super) expected: Usage,
    pub(super) used: Usage,
    /// Why the run stopped early.
    pub(super) stopped: Option<String>,
    /// The resources that are left in the account.
    pub(super) left: Vec<String>,
}

impl Report<'_> {
    /// Whether the run came to its end and every promise was kept.
    pub(super) fn is_good(&self) -> bool {
        let holds = !self.checks.is_empty() && self.checks.iter().all(Check::holds);
        self.stopped.is_none() && holds && self.left.is_empty()
    }

    /// Describes in a sentence how the run ended.
    pub(super) fn verdict(&self) -> &'static str {
        match &self.stopped {
            _ if self.is_good() => "Every promise was kept.",
            Some(_) => "The run stopped early.",
            None if self.checks.iter().all(Check::holds) => "Something could not be deleted.",
            None => "Not every promise was kept.",
        }
    }

    /// Formats the report as Markdown, without account ids.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        without_account_ids(&text)
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let version = env!("CARGO_PKG_VERSION");
        let verdict = self.verdict();
        let started = humantime::format_rfc3339_seconds(self.started);
        let took = humantime::format_duration(Duration::from_secs(self.took.as_secs()));
        let (region, architecture) = (self.region, self.architecture.name());
        writeln!(text, "# sqs-once on AWS\n\n**{verdict}**\n")?;
        if let Some(stopped) = &self.stopped {
            writeln!(text, "It stopped because: {stopped}\n")?;
        }
        writeln!(text, "- sqs-once {version}, in {region}, on {architecture}")?;
        writeln!(text, "- {started}, for {took}")?;
        let Messages {
            orders,
            poison,
            duplicates,
            retried,
            ..
        } = self.messages;
        writeln!(
            text,
            "- {} messages: {} orders, {duplicates} duplicates, {} poison, of which {retried} are retried until SQS moves them",
            self.messages.count(),
            orders.len(),
            poison.len(),
        )?;
        writeln!(text, "\n## Promises\n")?;
        for Check { promise, found } in &self.checks {
            match found {
                Ok(found) => writeln!(text, "- kept: {promise} ({found})")?,
                Err(found) => writeln!(text, "- **broken**: {promise}: {found}")?,
            }
        }
        if self.checks.is_empty() {
            writeln!(text, "None was checked.")?;
        }
        self.write_times(text)?;
        self.write_cost(text)?;
        writeln!(text, "\n## Deletion\n")?;
        match self.left.is_empty() {
            true => writeln!(text, "Everything that the run created is deleted.")?,
            false => writeln!(text, "These are left: {}.", self.left.join(", "))?,
        }
        Ok(())
    }

    fn write_times(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "\n## Latency\n\nFrom the machine that ran the command, one request at a time.\n"
        )?;
        writeln!(
            text,
            "| statement | times | p50 | p99 |\n|---|---:|---:|---:|"
        )?;
        for Statement { name, times } in &self.statements {
            writeln!(text, "| {name} | {} |", row(times))?;
        }
        let cold = match self.cold_starts.count() {
            0 => UNKNOWN.to_owned(),
            _ => format!(
                "\n| times | p50 | p99 |\n|---:|---:|---:|\n| {} |",
                row(&self.cold_starts)
            ),
        };
        writeln!(
            text,
            "\n## Cold start\n\nThe `Init Duration` that Lambda reports: {cold}"
        )
    }

    fn write_cost(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "\n## Cost\n\nAt the prices of us-east-1, without a free tier.\n"
        )?;
        writeln!(
            text,
            "| | at most expected | | used | |\n|---|---:|---:|---:|---:|"
        )?;
        let (expected, used) = (
            self.expected.bill(self.architecture),
            self.used.bill(self.architecture),
        );
        for (expected, used) in expected.iter().zip(&used) {
            let amount =
                |amount: Option<f64>| amount.map_or(UNKNOWN.to_owned(), |it| format!("{it:.0}"));
            let price = |price: Option<f64>| price.map_or(String::new(), dollars);
            writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                expected.what,
                amount(expected.amount),
                price(expected.dollars()),
                amount(used.amount),
                price(used.dollars()),
            )?;
        }
        let (expected, used) = (
            self.expected.dollars(self.architecture),
            self.used.dollars(self.architecture),
        );
        writeln!(
            text,
            "| **sum of what is known** | | {} | | {} |",
            dollars(expected),
            dollars(used)
        )?;
        writeln!(
            text,
            "\nThe SQS requests are those of this command, without those of Lambda's pollers."
        )
    }
}

pub(super) fn dollars(amount: f64) -> String {
    format!("${amount:.4}")
}

fn row(times: &Times) -> String {
    let percentile = |percent| match times.percentile(percent) {
        Some(time) => format!("{:.1} ms", time.as_secs_f64() * 1000.0),
        None => UNKNOWN.to_owned(),
    };
    format!(
        "{} | {} | {}",
        times.count(),
        percentile(50),
        percentile(99)
    )
}

/// Replaces account ids, which have twelve digits, wherever AWS's texts contain them.
fn without_account_ids(text: &str) -> String {
    const DIGITS: usize = 12;
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from
            .find(|char: char| !char.is_ascii_digit())
            .unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        clean.push_str(before);
        clean.push_str(if number.len() == DIGITS {
            "ACCOUNT"
        } else {
            number
        });
        rest = after;
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(messages: &Messages) -> Report<'_> {
        Report {
            region: "eu-central-1",
            architecture: Architecture::Arm64,
            started: SystemTime::UNIX_EPOCH,
            took: Duration::from_secs(61),
            messages,
            checks: vec![Check {
                promise: "each order is stored",
                found: Ok("77 orders".to_owned()),
            }],
            statements: Vec::new(),
            cold_starts: Times::default(),
            expected: Usage::expected(messages, 5),
            used: Usage::default(),
            stopped: None,
            left: Vec::new(),
        }
    }

    #[test]
    fn a_good_run_says_so_and_invents_no_figures() {
        let messages = Messages::new(100);
        let text = report(&messages).markdown();
        assert!(text.contains("**Every promise was kept.**"), "{text}");
        assert!(
            text.contains("- kept: each order is stored (77 orders)"),
            "{text}"
        );
        assert!(text.contains("Lambda reports: not available"), "{text}");
        let used = text
            .lines()
            .find(|line| line.starts_with("| DynamoDB write units"));
        assert!(used.unwrap().ends_with("| not available |  |"), "{text}");
    }

    #[test]
    fn a_run_is_not_good_if_it_stopped_or_broke_a_promise_or_left_something() {
        let messages = Messages::new(100);
        let is_good = |spoil: fn(&mut Report<'_>)| {
            let mut report = report(&messages);
            spoil(&mut report);
            report.is_good()
        };
        assert!(is_good(|_| {}));
        assert!(!is_good(|it| it.stopped = Some("interrupted".to_owned())));
        assert!(!is_good(
            |it| it.checks[0].found = Err("1 order is missing".to_owned())
        ));
        assert!(!is_good(|it| it.checks.clear()));
        assert!(!is_good(|it| it.left.push("table orders".to_owned())));
        let mut report = report(&messages);
        report.stopped = Some("interrupted".to_owned());
        assert_eq!(report.verdict(), "The run stopped early.");
    }

    #[test]
    fn the_report_contains_no_account_id() {
        let text = "arn:aws:iam::123456789012:role/x, 210987654321 and 1234567890123";
        let clean = "arn:aws:iam::ACCOUNT:role/x, ACCOUNT and 1234567890123";
        assert_eq!(without_account_ids(text), clean);
        let messages = Messages::new(100);
        let mut report = report(&messages);
        report.stopped = Some("User: arn:aws:sts::123456789012:me may not".to_owned());
        assert!(!report.markdown().contains("123456789012"));
    }
}
