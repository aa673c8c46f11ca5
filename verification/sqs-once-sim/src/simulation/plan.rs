//! The plan of one schedule: everything that its seed decides in advance.

use std::time::Duration;

use crate::chance::Chance;
use crate::way::Way;

use super::ids::{Ids, ROUTES};
use super::mutant::Mutant;
use super::network::Weather;
use super::options::{Depth, Options, Versions};

/// The largest clock error, in milliseconds. Together with the latest kill, it is less than a lease's margin.
pub(crate) const SKEW: i64 = 1900;
/// The largest clock error, in milliseconds, where processes live on. Two clocks may be off in opposite directions, and the
/// watchdog looks ten times a second: all that is less than the third of a lease's margin that is left.
const CLOSE_SKEW: i64 = 440;
/// The largest clock error and the latest kill, in milliseconds, if leases don't hold.
const HOSTILE_SKEW: i64 = 30_000;
const HOSTILE_KILL: u64 = 40_000;

/// The latest kill after a deadline, in milliseconds, if leases hold.
pub(crate) const LATEST_KILL: u64 = 1000;

/// How long the table keeps records, if they expire during a schedule. Clocks are off by far less.
const RETENTIONS: [Duration; 3] = [
    Duration::from_secs(6),
    Duration::from_secs(20),
    Duration::from_secs(60),
];

/// The largest number of keys in a schedule.
pub(crate) const MOST_KEYS: usize = 120;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) key: usize,
    pub(crate) payload: usize,
    pub(crate) sent_after: Duration,
}

/// How the fingerprints of messages with one key differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payloads {
    Same,
    /// Every second message is from a producer that adds a field.
    MoreFields,
    /// Every second process compares declared fields, and the others compare whole bodies.
    DeclaredFields,
    /// Their content does, too.
    Different,
}

impl Payloads {
    const MOSTLY_SAME: [Self; 6] = [
        Self::MoreFields,
        Self::DeclaredFields,
        Self::Same,
        Self::Same,
        Self::Same,
        Self::Same,
    ];
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How each route records effects; twice the same without routes.
    pub(crate) ways: [Way; 2],
    /// Whether the consumer is a router.
    pub(crate) is_routed: bool,
    /// Whether the handler takes whole batches.
    pub(crate) is_batched: bool,
    /// Whether a layer is around the handlers.
    pub(crate) has_layer: bool,
    /// Whether the decoder waits.
    pub(crate) has_decoder: bool,
    /// Whether processes may survive the timeout of an invocation.
    pub(crate) survives: bool,
    /// Whether an operator forgets keys.
    pub(crate) has_forgets: bool,
    pub(crate) payloads: Payloads,
    pub(crate) has_hooks: bool,
    /// How long the table keeps records, if they expire during the schedule.
    pub(crate) retention: Option<Duration>,
    /// Whether the table deletes expired items.
    pub(crate) deletes_expired: bool,
    /// Whether the store has the rules of PostgreSQL.
    pub(crate) is_postgres: bool,
    pub(crate) is_fifo: bool,
    pub(crate) keys: usize,
    pub(crate) groups: usize,
    pub(crate) messages: Vec<Planned>,
    pub(crate) batch: usize,
    pub(crate) weather: Weather,
    /// How long the schedule lasts before the weather turns fair.
    pub(crate) clears_after: Duration,
    /// Whether anything other than requests may fail.
    pub(crate) is_troubled: bool,
    pub(crate) processes: usize,
    /// Whether a process takes an invocation while another one runs in it.
    pub(crate) overlaps: bool,
    pub(crate) timeout: Duration,
    /// How late a process may be killed after the deadline, in milliseconds.
    pub(crate) late_kill: u64,
    pub(crate) visibility: Duration,
    /// Whether messages that an answer reports as failed become visible immediately.
    pub(crate) returns_at_once: bool,
    pub(crate) max_receives: u32,
    pub(crate) skew: i64,
    /// Whether the layer below the consumer sends a request again if its answer is missing.
    pub(crate) resends: bool,
    pub(crate) cache: bool,
    pub(crate) waits: bool,
    pub(crate) singly: bool,
    pub(crate) attempt_timeout: bool,
    pub(crate) concurrency: usize,
    /// Whether the consumer has an SQS client.
    pub(crate) has_sqs: bool,
    /// The ids that processes with even and with odd numbers use.
    pub(crate) ids: [Ids; 2],
}

/// The fate of a process at the timeout of an invocation that has no answer, or whose code still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Ends,
    /// It is frozen, and thawed later. It may also be frozen before the timeout, and thawed after it.
    Freezes,
    LivesOn,
}

impl Fate {
    const ALL: [Self; 3] = [Self::Ends, Self::Freezes, Self::LivesOn];
}

impl Plan {
    /// Draws the fate of a process.
    pub(crate) fn fate(&self, chance: &Chance) -> Fate {
        match self.survives {
            true => chance.pick(&Fate::ALL),
            false => Fate::Ends,
        }
    }

    pub(crate) fn draw(seed: u64, chance: &Chance, options: &Options) -> Self {
        // A generator of its own leaves a seed without routes, layer and decoder as it is.
        let other = Chance::from_seed(!seed);
        // Each mutant needs routes, a layer, processes that survive a timeout, an operator, or none of these.
        let is_routed = match options.mutant {
            Some(mutant) => matches!(
                mutant,
                Mutant::FirstRouteTakesAll
                    | Mutant::RoutesShareNamespace
                    | Mutant::RoutesSplitGroups
            ),
            None => other.once_in(4) && options.versions != Versions::OtherIds,
        };
        let has_layer = match options.mutant {
            Some(mutant) => mutant == Mutant::LayerHidesFailure,
            None => other.once_in(4),
        };
        let is_fifo = chance.once_in(3);
        // A crowd needs several requests, and makes records wait for others. Most schedules stay small, because a few
        // messages show most faults.
        let is_crowd = chance.once_in(256);
        let (keys, messages, batch) = match is_crowd {
            true => (1 + chance.index(MOST_KEYS), 30 + chance.index(300), 400),
            false => (1 + chance.index(3), 1 + chance.index(5), 5),
        };
        let keys = if is_routed {
            keys.max(ROUTES.len())
        } else {
            keys
        };
        let mut sent_after = Duration::ZERO;
        let messages = (0..messages).map(|_| {
            if chance.once_in(4) {
                sent_after += chance.millis(1..20_000);
            }
            Planned {
                key: chance.index(keys),
                payload: 0,
                sent_after,
            }
        });
        let mut messages: Vec<_> = messages.collect();
        let timeout = chance.pick(&[3, 6, 10]);
        let way = options.way.unwrap_or_else(|| chance.pick(options.ways()));
        let second = match options.way {
            None if is_routed => other.pick(options.ways()),
            _ => way,
        };
        // The mutants of the engine's guards are known to die without it.
        let has_decoder = options.mutant.is_none() && other.once_in(4);
        let survives = match options.mutant {
            Some(mutant) => matches!(
                mutant,
                Mutant::RenewOthers | Mutant::RenewShortens | Mutant::NoWatchdog
            ),
            None => other.once_in(2),
        };
        // The operator changes the table at the `Store` trait, and knows one id of each key.
        let has_operator = options.depth == Depth::Trait && options.versions != Versions::OtherIds;
        let has_forgets = match options.mutant {
            Some(mutant) => matches!(mutant, Mutant::ForgetDeletes | Mutant::ForgetKeepsAge),
            None => other.once_in(4) && has_operator,
        };
        let payloads = match options.mutant {
            Some(Mutant::SchemeIgnored) => Payloads::MoreFields,
            Some(_) => Payloads::Same,
            None => other.pick(&Payloads::MOSTLY_SAME),
        };
        // The mutants of the guards are known to die without these.
        let is_whole = options.mutant.is_none() && !options.is_hostile;
        // Ids of different secrets have fingerprints of different schemes.
        let is_of_one_id = options.versions != Versions::OtherIds;
        let payloads = match payloads {
            Payloads::Same if is_whole && is_of_one_id && other.once_in(4) => Payloads::Different,
            payloads => payloads,
        };
        if payloads == Payloads::Different {
            let drawn = messages.iter_mut();
            drawn.for_each(|one| one.payload = other.index(2));
        }
        let is_batched = is_whole && !is_routed && other.once_in(3);
        let ways = [way, second];
        let expires = is_whole && is_of_one_id && other.once_in(4);
        let commits_writes = |way: Way| matches!(way, Way::Writes | Way::ClaimedWrites);
        let is_postgres = is_whole
            && has_operator
            && !ways.iter().copied().any(commits_writes)
            && (ways.contains(&Way::Transaction) || other.once_in(3));
        Self {
            ways,
            is_routed,
            is_batched,
            // A batch handler has no layers.
            has_layer: has_layer && !is_batched,
            has_decoder,
            survives,
            has_forgets,
            payloads,
            has_hooks: is_whole && other.once_in(3),
            retention: expires.then(|| other.pick(&RETENTIONS)),
            deletes_expired: expires && has_operator,
            is_postgres,
            is_fifo,
            keys,
            groups: 1 + chance.index(keys),
            messages,
            batch: if is_fifo { batch.min(10) } else { batch },
            // The draw keeps the rest of the plan as it is without this option.
            weather: match (Weather::any(chance), options.fault) {
                (_, Some((request, fault))) => Weather::Once(request, fault),
                (weather, None) => weather,
            },
            clears_after: chance.millis(20_000..90_000),
            is_troubled: !chance.once_in(4),
            processes: 1 + chance.index(3),
            overlaps: chance.once_in(if survives { 2 } else { 3 }),
            timeout: Duration::from_secs(timeout),
            late_kill: match options.is_hostile {
                true => 1 + chance.below(HOSTILE_KILL),
                false => chance.pick(&[1, LATEST_KILL]),
            },
            visibility: Duration::from_secs(timeout) + chance.millis(2000..40_000),
            returns_at_once: chance.once_in(2),
            max_receives: match is_crowd {
                true => 8,
                false => chance.pick(&[2, 3, 5, 8]),
            },
            skew: match options.is_hostile {
                true => HOSTILE_SKEW,
                false => chance.pick(&[0, if survives { CLOSE_SKEW } else { SKEW }]),
            },
            resends: chance.once_in(2) && !is_postgres,
            cache: chance.once_in(3),
            waits: chance.once_in(4),
            singly: chance.once_in(6),
            attempt_timeout: chance.once_in(6),
            concurrency: match is_crowd {
                true => chance.pick(&[10, 50]),
                false => chance.pick(&[1, 2, 10]),
            },
            has_sqs: match options.mutant {
                Some(Mutant::AcknowledgeBeforeSend) => true,
                _ => chance.once_in(12),
            },
            ids: {
                // Without this number, all seeds on record would stand for other schedules.
                chance.once_in(2);
                match options.versions {
                    Versions::OtherIds => chance.pick(&Ids::CHANGES),
                    _ if is_routed => [Ids::Routed; 2],
                    _ => [Ids::Plain; 2],
                }
            },
        }
    }

    pub(crate) fn ahead(&self, chance: &Chance) -> i64 {
        let width = self.skew.unsigned_abs() * 2 + 1;
        chance.below(width).cast_signed() - self.skew
    }
}
