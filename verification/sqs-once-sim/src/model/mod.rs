//! The protocol as a state machine, searched exhaustively.

mod action;
mod check;
mod config;
mod decisions;
mod fence;
pub mod properties;
mod request;
mod state;
mod step;
mod version;

use stateright::{Model, Property};

use action::Action;
pub use check::{Verdict, check, until_broken};
pub use config::{Config, Trouble};
use state::World;
pub use version::Version;

struct Protocol {
    config: Config,
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.config)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        action::possible(&self.config, world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        Some(step::after(&self.config, world, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties()
    }
}
