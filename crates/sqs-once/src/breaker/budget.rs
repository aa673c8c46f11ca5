//! The deliveries that a message has left, spent so that they outlast an outage.

use std::time::Duration;

/// SQS hides a message for 12 hours at most, counted from its receipt. The rest is the longest time from there to the
/// function.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60 - 16 * 60);
/// More deliveries would bring no message back noticeably sooner.
const MOST: u32 = 20;
/// The largest share of a wait that is added at random, so that messages don't return together.
const JITTER: f64 = 0.25;

/// How long before its expiry a message must be back at the latest.
const BEFORE_EXPIRY: Duration = Duration::from_secs(15 * 60);

/// A queue's answer about what its messages may still expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    pub(crate) deliveries: Deliveries,
    /// How long it keeps a message.
    pub(crate) retention: Duration,
}

impl QueueLimits {
    /// Returns the limits of a queue whose consumer counts the deliveries of a message itself. `None` if the queue does not
    /// allow `more` than those: SQS could move a message before that, without a word.
    pub(crate) fn counted(self, deliveries: u32, more: u32) -> Option<Self> {
        match self.deliveries {
            Deliveries::AtMost(most) if most < deliveries.saturating_add(more) => None,
            _ => Some(Self {
                deliveries: Deliveries::AtMost(deliveries),
                ..self
            }),
        }
    }

    /// Returns how long a message of this age may stay hidden at most. SQS deletes it at its expiry, even if it is hidden.
    /// Returns `None` for a message that is older than the retention, because then another retention holds.
    pub(crate) fn longest_hiding(self, age: Duration) -> Option<Duration> {
        let left = self.retention.checked_sub(age)?;
        Some(left.saturating_sub(BEFORE_EXPIRY))
    }
}

/// What happens to a message that returns during an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hiding {
    For(Duration),
    /// Its backoff, or the queue's visibility timeout, because the queue's settings are unknown.
    AsUsual,
    /// It has no delivery left, or expires.
    LastChance,
}

/// How often a queue delivers a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "sqs"),
    expect(dead_code, reason = "only a queue that can be asked says so")
)]
pub(crate) enum Deliveries {
    /// Up to its `maxReceiveCount`.
    AtMost(u32),
    /// Without a limit, because the queue has no redrive policy.
    Unlimited,
}

impl Deliveries {
    /// Returns the number of deliveries after the `received`th.
    pub(crate) fn left(self, received: u32) -> u32 {
        let left = match self {
            Self::AtMost(most) => most.saturating_sub(received),
            Self::Unlimited => MOST,
        };
        left.min(MOST)
    }
}

/// Returns how long a message with `left` further deliveries stays hidden, `elapsed` into an outage. `bits` are random.
///
/// The waits grow by the same factor, from `shortest`, so that the last delivery comes when the outage has lasted for
/// `outage`. So a message returns late after an outage in proportion to the length of the outage. An outage that has lasted
/// longer is planned to last as long again.
pub(crate) fn hidden_for(
    left: u32,
    elapsed: Duration,
    outage: Duration,
    shortest: Duration,
    bits: u128,
) -> Duration {
    let left = left.max(1);
    let so_far = elapsed.max(shortest).as_secs_f64();
    let whole = outage.as_secs_f64().max(2.0 * so_far);
    let grown = so_far * ((whole / so_far).powf(1.0 / f64::from(left)) - 1.0);
    // Later waits have a limit, so this one must cover what they can't.
    let later = f64::from(left - 1) * LONGEST.as_secs_f64();
    let needed = whole - elapsed.as_secs_f64() - later;
    let longest = LONGEST.as_secs_f64();
    let wait = grown.max(needed).max(shortest.as_secs_f64());
    let share = f64::from(bits as u32) / f64::from(u32::MAX);
    Duration::from_secs_f64((wait * (1.0 + JITTER * share)).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const PROBE: Duration = Duration::from_secs(30);

    /// When the last of `left` deliveries comes, if each returns at once, from `elapsed` on.
    fn last(mut left: u32, mut elapsed: Duration, outage: Duration, bits: u128) -> Duration {
        while left > 0 {
            elapsed += hidden_for(left, elapsed, outage, PROBE, bits);
            left -= 1;
        }
        elapsed
    }

    proptest! {
        #[test]
        fn three_deliveries_outlast_a_day_whenever_the_message_comes(
            left in 3..=MOST, elapsed in 0..24u64 * 3600, bits: u128,
        ) {
            let elapsed = Duration::from_secs(elapsed);
            prop_assert!(last(left, elapsed, DAY, bits) >= DAY);
        }

        #[test]
        fn any_outage_that_the_deliveries_can_cover_is_covered(
            left in 1..=MOST, hours in 1..200u64, bits: u128,
        ) {
            let outage = Duration::from_secs(hours * 3600);
            let coverable = outage.min(LONGEST * left);
            // Rounding to nanoseconds.
            prop_assert!(last(left, Duration::ZERO, outage, bits) + PROBE >= coverable);
        }

        #[test]
        fn no_wait_is_longer_than_sqs_allows(
            left: u32, elapsed: u32, outage in 30..u32::MAX, bits: u128,
        ) {
            let [elapsed, outage] = [elapsed, outage].map(|it| Duration::from_secs(it.into()));
            let wait = hidden_for(left, elapsed, outage, PROBE, bits);
            prop_assert!((PROBE..=LONGEST).contains(&wait));
        }
    }

    /// The longest time from the end of an outage to the next delivery of a message that is first delivered during it.
    fn longest_delay(max_receive_count: u32, lasts: Duration) -> Duration {
        let arrivals = (0..1000).map(|part| lasts * part / 1000);
        let delays = arrivals.flat_map(|arrival| {
            [0, u128::MAX].map(|bits| {
                let (mut left, mut elapsed) = (max_receive_count, arrival);
                while left > 1 && elapsed < lasts {
                    left -= 1;
                    elapsed += hidden_for(left, elapsed, DAY, PROBE, bits);
                }
                elapsed.saturating_sub(lasts)
            })
        });
        delays.max().unwrap()
    }

    #[test]
    fn the_guide_states_the_longest_delay_after_an_outage() {
        let shown = |delay: Duration| match delay.as_secs() {
            secs @ 0..120 => format!("{secs} s"),
            secs @ 120..7200 => format!("{} min", secs.div_ceil(60)),
            secs => format!("{} h", secs.div_ceil(3600)),
        };
        let rows = [60, 600, 3600, 6 * 3600, 24 * 3600].map(|secs| {
            let lasts = Duration::from_secs(secs);
            let delays = [5, 10, 20].map(|count| shown(longest_delay(count, lasts)));
            format!("| {} | {} |", shown(lasts), delays.join(" | "))
        });
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/outages.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        for row in &rows {
            assert!(
                guide.contains(row),
                "the guide should say\n{}",
                rows.join("\n")
            );
        }
    }

    #[test]
    fn a_message_is_back_before_it_expires() {
        let [hour, minute] = [60 * 60, 60].map(Duration::from_secs);
        let queue = QueueLimits {
            deliveries: Deliveries::Unlimited,
            retention: hour,
        };
        assert_eq!(queue.longest_hiding(30 * minute), Some(15 * minute));
        assert_eq!(queue.longest_hiding(50 * minute), Some(Duration::ZERO));
        // It is still there, so that the queue keeps messages for longer.
        assert_eq!(queue.longest_hiding(61 * minute), None);
    }

    #[test]
    fn deliveries_that_are_left_follow_from_the_redrive_policy() {
        assert_eq!(Deliveries::AtMost(5).left(1), 4);
        assert_eq!(Deliveries::AtMost(5).left(5), 0);
        assert_eq!(Deliveries::AtMost(1000).left(1), MOST);
        assert_eq!(Deliveries::Unlimited.left(1000), MOST);
    }
}
