//! Random histories: kills, lost requests and answers, redrives of any part, dropped and repeated messages.

use std::time::Duration;

use proptest::prelude::*;
use sqs_once::store::StoreErrorKind;

use super::shape::Shape;
use super::world::{DEDUPLICATED, DELIVERIES, World};
use crate::support::in_simulated_time;
use crate::support::sqs::{Sqs, Turn};

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    SendGarbage,
    SendAgain(usize),
    Deliver {
        is_lost: bool,
        /// When the process dies, in milliseconds.
        dies: Option<u64>,
    },
    /// Another environment is frozen, after so many milliseconds.
    Freeze(u64),
    /// It goes on for so many milliseconds.
    Thaw(usize, u64),
    KillFrozen,
    /// The store does not carry out, or not answer, the next requests of this kind.
    Fail {
        call: &'static str,
        answers_are_lost: bool,
    },
    /// SQS does so with the next requests.
    FailSqs {
        turn: Turn,
        times: usize,
    },
    /// The bits of `chosen` tell which dead letters go back, from the oldest on.
    Redrive {
        chosen: u8,
        dies: bool,
    },
    Drop(usize),
    Break(usize),
    Mend,
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let call = prop_oneof![Just("claim"), Just("settle"), Just("read")];
    let turn = prop_oneof![Just(Turn::LoseAnswer), Just(Turn::Refuse("AccessDenied"))];
    prop_oneof![
        4 => (1..4usize).prop_map(Step::Send),
        1 => Just(Step::SendGarbage),
        2 => (0..12usize).prop_map(Step::SendAgain),
        12 => (prop::bool::weighted(0.2), prop::option::weighted(0.3, 0..60u64))
            .prop_map(|(is_lost, dies)| Step::Deliver { is_lost, dies }),
        3 => (0..40u64).prop_map(Step::Freeze),
        1 => Just(Step::KillFrozen),
        3 => (0..3usize, 0..40u64).prop_map(|(at, lasts)| Step::Thaw(at, lasts)),
        2 => (call, any::<bool>()).prop_map(|(call, answers_are_lost)| Step::Fail { call, answers_are_lost }),
        2 => (turn, 1..4usize).prop_map(|(turn, times)| Step::FailSqs { turn, times }),
        6 => (any::<u8>(), prop::bool::weighted(0.2))
            .prop_map(|(chosen, dies)| Step::Redrive { chosen, dies }),
        1 => (0..8usize).prop_map(Step::Drop),
        4 => (0..12usize).prop_map(Step::Break),
        2 => Just(Step::Mend),
        2 => Just(Step::Pass),
    ]
}

impl World {
    async fn take(&mut self, step: Step) {
        match step {
            Step::Send(count) => self.send(count),
            Step::SendGarbage => self.send_garbage(),
            Step::SendAgain(order) => self.send_again(order),
            Step::Deliver { is_lost, dies } => {
                let dies = dies.map_or(Duration::MAX, Duration::from_millis);
                self.deliver_until(is_lost, dies).await;
            }
            Step::Freeze(after) => self.freeze(Duration::from_millis(after)),
            Step::Thaw(at, lasts) => self.thaw(at, Duration::from_millis(lasts)),
            Step::KillFrozen => self.kill_frozen(),
            Step::Fail {
                call,
                answers_are_lost: false,
            } => self.bench.store.fail(call, StoreErrorKind::Unanswered, 2),
            Step::Fail { call, .. } => self.bench.store.lose_answer(call, 2),
            Step::FailSqs { turn, times } => self.sqs.next(&turn, times),
            Step::Redrive { chosen, dies } => {
                self.redrive(|at| at < 8 && chosen & (1 << at) != 0, dies);
            }
            Step::Drop(at) => self.drop_letter(at),
            Step::Break(order) => self.breaks(order),
            Step::Mend => self.mend(),
            Step::Pass => self.pass(DEDUPLICATED),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_order_of_a_group_runs_once_and_after_all_earlier_ones_whatever_happens(
        shape in prop::sample::select(&Shape::ALL[..]),
        groups in 1..3usize,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        in_simulated_time(async {
            let mut world = World::of(shape, groups, Sqs::delivering(DELIVERIES + 100));
            for step in steps {
                world.take(step).await;
            }
            world.settle().await;
        });
    }
}
