//! Prints lists, and formats fields and times.

use crate::print;
use anyhow::{Error, Result};
use sqs_once::store::Timestamp;
use sqs_once::unstable::{Listed, Listing};
use sqs_once_operate::Keys;
use std::time::{Duration, SystemTime};

/// The first second of the year 10000, which RFC 3339 can't express.
const YEAR_10000: u64 = 253_402_300_800;

/// What a list prints beside its lines.
pub(crate) struct List {
    pub(crate) json: bool,
    /// The most lines.
    pub(crate) limit: usize,
    /// The names of the columns.
    pub(crate) heading: [&'static str; 4],
    /// The note of an empty list.
    pub(crate) none: &'static str,
}

impl List {
    /// Prints a line for each item that has one.
    pub(crate) async fn print(
        &self,
        keys: &Keys,
        listing: &Listing,
        line: impl Fn(&Listed) -> Option<String>,
    ) -> Result<()> {
        let mut listed = 0;
        let each = |item: Listed| {
            let Some(line) = line(&item) else {
                return Ok(true);
            };
            if listed == self.limit {
                print::note(&format!("there may be more: these are the first {listed}"));
                return Ok(false);
            }
            if listed == 0 && !self.json {
                print::note(&row(self.heading));
            }
            listed += 1;
            // Without a reader, every further page would cost read units.
            print::one_result(line)
        };
        keys.walk::<Error>(listing, each).await?;
        if listed == 0 {
            print::note(self.none);
        }
        Ok(())
    }
}

pub(crate) fn row([state, from, to, name]: [&str; 4]) -> String {
    format!("{state:12} {from:14} {to:14} {name}")
}

/// Formats fields that are known, one on each line. `width` is that of their names.
pub(crate) fn fields(
    width: usize,
    fields: impl IntoIterator<Item = (&'static str, Option<String>)>,
) -> String {
    let line = |(name, value): (&str, Option<String>)| {
        Some(format!("{name:width$}{}\n", print::one_line(&value?)))
    };
    fields.into_iter().filter_map(line).collect()
}

/// Formats a time, such as `2026-11-22T10:30:00Z`.
pub(crate) fn moment(moment: Timestamp) -> String {
    if moment.as_secs() >= YEAR_10000 {
        return moment.to_string();
    }
    let since_epoch = Duration::from_secs(moment.as_secs());
    let time = SystemTime::UNIX_EPOCH + since_epoch;
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Formats the distance to a time, such as `in 27days 23h` or `5m 2s ago`.
pub(crate) fn distance(moment: Timestamp, now: Timestamp) -> String {
    if moment > now {
        format!("in {}", roughly(moment.since(now)))
    } else {
        format!("{} ago", roughly(now.since(moment)))
    }
}

/// Formats a time and its distance, such as `2026-11-22T10:30:00Z, 5m 2s ago`.
pub(crate) fn at(at: Timestamp, now: Timestamp) -> String {
    format!("{}, {}", moment(at), distance(at, now))
}

/// Formats the two largest units of a duration.
fn roughly(duration: Duration) -> String {
    let whole = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    let units: Vec<_> = whole.split(' ').take(2).collect();
    units.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_in_two_units_whichever_way_they_lie() {
        let now = Timestamp::from_secs(1_790_000_000);
        assert_eq!(at(now, now), "2026-09-21T14:13:20Z, 0s ago");
        assert_eq!(distance(now + Duration::from_millis(2_999), now), "in 2s");
        let later = now + Duration::from_secs(93_784);
        assert_eq!(distance(now, later), "1day 2h ago");
    }

    #[test]
    fn moments_that_no_calendar_has_are_written_all_the_same() {
        let last = Timestamp::from_millis(u64::MAX);
        assert_eq!(moment(last), "18446744073709551615 ms since the epoch");
        assert!(distance(last, Timestamp::default()).starts_with("in "));
    }
}
