//! Searches a model exhaustively and reports the result.

use std::fmt;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use super::config::Config;
use super::fence::Mark;
use super::state::{Place, World};
use super::{Action, Protocol};

/// The result of a search.
#[derive(Debug)]
pub struct Verdict {
    /// The configuration that was searched.
    pub config: Config,
    /// The number of distinct states that were reached.
    pub states: usize,
    /// The number of steps that were taken from these states.
    pub steps: usize,
    /// The largest number of steps from the initial state.
    pub depth: usize,
    /// The duration of the search.
    pub time: Duration,
    found: Vec<Found>,
}

#[derive(Debug)]
struct Found {
    property: &'static str,
    /// `true` if the property must hold in every state, `false` if it must hold in at least one.
    always: bool,
    /// A path to a state that violates the property. If it must hold in one state only, a path to such a state.
    trace: Option<Vec<(World, Option<Action>)>>,
}

/// Searches all states with `threads` threads.
pub fn check(config: &Config, threads: usize) -> Verdict {
    run(config, threads, HasDiscoveries::All)
}

/// Searches breadth first until a property breaks. The path found is short, but not always the shortest.
pub fn until_broken(config: &Config) -> Verdict {
    run(config, 1, HasDiscoveries::AnyFailures)
}

fn run(config: &Config, threads: usize, until: HasDiscoveries) -> Verdict {
    let start = Instant::now();
    let model = Protocol {
        config: config.clone(),
    };
    let properties = model.properties();
    let builder = model.checker().threads(threads).finish_when(until);
    let checker = builder.spawn_bfs().join();
    let time = start.elapsed();
    let found = properties.iter().map(|property| Found {
        property: property.name,
        always: property.expectation.discovery_is_failure(),
        trace: checker
            .discovery(property.name)
            .map(stateright::Path::into_vec),
    });
    Verdict {
        config: config.clone(),
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        time,
        found: found.collect(),
    }
}

impl Verdict {
    /// The properties that do not hold.
    pub fn broken(&self) -> Vec<&'static str> {
        let broken = self.found.iter().filter(|found| found.is_broken());
        broken.map(|found| found.property).collect()
    }

    /// Whether the search found what the configuration expects: no broken property, or only the one in `breaks`.
    pub fn is_as_expected(&self) -> bool {
        let broken = self.broken();
        match self.config.breaks {
            Some(property) => broken.contains(&property),
            None => broken.is_empty(),
        }
    }
}

impl Found {
    fn is_broken(&self) -> bool {
        self.always == self.trace.is_some()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        writeln!(
            f,
            "{}: {:?}, keys of the messages {:?}, clocks ahead by {:?} ticks, dead letters after {} deliveries\n  {:?}",
            config.name, config.flow, config.keys, config.skews, config.receives, config.trouble
        )?;
        if let Some(ticks) = config.valid_for {
            let (versions, unknown) = (&config.versions, config.is_of_unknown_age);
            writeln!(
                f,
                "  {versions:?}, tokens valid for {ticks} ticks, unknown age at the start: {unknown}"
            )?;
        }
        let rate = self.states as f64 / self.time.as_secs_f64();
        writeln!(
            f,
            "  {} states, {} steps, {} deep, in {:.1?} ({rate:.0} states/s)",
            self.states, self.steps, self.depth, self.time
        )?;
        for found in &self.found {
            let result = match (found.is_broken(), found.always) {
                (false, true) => "holds    ",
                (false, false) => "reachable",
                (true, _) => "BROKEN   ",
            };
            writeln!(f, "  {result} {}", found.property)?;
            if let Some(trace) = found.trace.as_ref().filter(|_| found.is_broken()) {
                write_trace(f, trace)?;
            }
        }
        Ok(())
    }
}

/// Writes one line per step, followed by the keys and messages if they changed.
fn write_trace(f: &mut fmt::Formatter<'_>, trace: &[(World, Option<Action>)]) -> fmt::Result {
    let mut last = None;
    for (number, pair) in trace.windows(2).enumerate() {
        if let [(_, Some(action)), (world, _)] = pair {
            writeln!(f, "    {:>3}. {action}", number + 1)?;
            let stands = standing(world);
            if last.as_ref() != Some(&stands) {
                writeln!(f, "         {stands}")?;
                last = Some(stands);
            }
        }
    }
    Ok(())
}

fn standing(world: &World) -> String {
    let keys = world.items.iter().zip(&world.accounts).enumerate();
    let keys = keys.map(|(key, (item, account))| {
        let item = item.map_or_else(
            || "nothing".to_owned(),
            |item| {
                let stands = match (item.completed, item.lease) {
                    (true, _) => format!("COMPLETED by {}", item.owner),
                    (false, Some(lease)) => {
                        format!("INPROGRESS by {}, {lease} ticks left", item.owner)
                    }
                    (false, None) => format!("INPROGRESS by {}, released", item.owner),
                };
                match item.fence {
                    Some(Mark::FIXED) => stands,
                    None => format!("{stands}, no fence"),
                    Some(Mark { at: None, count }) => format!("{stands}, fence {count}"),
                    Some(Mark {
                        at: Some(at),
                        count,
                    }) => format!("{stands}, fence {at}+{count}"),
                }
            },
        );
        format!("k{key}: {item}; {} effects", account.effects)
    });
    let messages = world.messages.iter().enumerate();
    let messages = messages.map(|(number, message)| match message.place {
        Place::Visible => format!("m{number} visible"),
        Place::Away(left) => format!("m{number} away for {left}"),
        Place::Acknowledged => format!("m{number} acknowledged"),
        Place::Dead => format!("m{number} dead letter"),
    });
    let all: Vec<_> = keys.chain(messages).collect();
    all.join(" | ")
}
