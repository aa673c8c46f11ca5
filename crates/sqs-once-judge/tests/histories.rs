//! Doctored histories: the judge finds each violation, and none in a history that keeps the guarantees.

use sqs_once_judge::Event::{
    Acknowledged, Copied, Effect, EffectOf, Forgotten, Hooked, Left, Recorded, Resumed, RunsOn,
    Sent, Stopped,
};
use sqs_once_judge::{Attempt, Event, Judge, Wrong};

fn judged(history: &[Event]) -> Vec<Wrong> {
    let mut judge = Judge::default();
    let events = history.iter();
    events.flat_map(|event| judge.see(*event)).collect()
}

const SENT: Event = Sent {
    key: 0,
    payload: 0,
    group: None,
};
const EFFECT: Event = Effect {
    key: 0,
    payload: 0,
    commits: false,
};
const COMMIT: Event = Effect {
    key: 0,
    payload: 0,
    commits: true,
};
const RECORDED: Event = Recorded(0);
const ACKNOWLEDGED: Event = Acknowledged(0);

const fn attempt(number: usize) -> Attempt {
    Attempt { key: 0, number }
}

fn started(number: usize, admitted: u64) -> Event {
    Event::Started {
        attempt: attempt(number),
        admitted,
        owns: true,
    }
}

fn stopped(number: usize) -> Event {
    Stopped(attempt(number))
}

#[test]
fn an_acknowledgement_needs_a_completion_or_a_copy_in_the_dead_letter_queue() {
    let (message, key) = (0, 0);
    for (history, wrong) in [
        (&[SENT, EFFECT, RECORDED, ACKNOWLEDGED][..], None),
        (&[SENT, Copied(message), ACKNOWLEDGED], None),
        (
            &[SENT, ACKNOWLEDGED],
            Some(Wrong::NoEffect { message, key }),
        ),
        (
            &[SENT, RECORDED, ACKNOWLEDGED, EFFECT],
            Some(Wrong::NoEffect { message, key }),
        ),
        (
            &[SENT, EFFECT, ACKNOWLEDGED, RECORDED],
            Some(Wrong::NoRecord { message, key }),
        ),
    ] {
        assert_eq!(judged(history), Vec::from_iter(wrong), "{history:?}");
    }
}

#[test]
fn the_effect_of_another_payload_under_the_same_key_is_not_the_effect_of_a_message() {
    let other = Effect {
        key: 0,
        payload: 1,
        commits: false,
    };
    let missed = Wrong::NoEffect { message: 0, key: 0 };
    assert_eq!(judged(&[SENT, other, RECORDED, ACKNOWLEDGED]), [missed]);
    let dead = Copied(0);
    assert_eq!(judged(&[SENT, other, RECORDED, dead, ACKNOWLEDGED]), []);
}

#[test]
fn a_message_is_acknowledged_after_its_hook_and_a_hook_runs_after_the_completion() {
    let judged = |history: &[Event]| {
        let mut judge = Judge::default().awaiting_hooks(true);
        let events = history.iter();
        let wrong: Vec<_> = events.flat_map(|event| judge.see(*event)).collect();
        wrong
    };
    let hooked = Hooked(0);
    assert_eq!(judged(&[SENT, EFFECT, RECORDED, hooked, ACKNOWLEDGED]), []);
    assert_eq!(judged(&[SENT, Copied(0), ACKNOWLEDGED]), []);
    let missed = [Wrong::NoHook { message: 0 }];
    assert_eq!(judged(&[SENT, EFFECT, RECORDED, ACKNOWLEDGED]), missed);
    let early = [Wrong::NoRecord { message: 0, key: 0 }];
    assert_eq!(judged(&[SENT, EFFECT, hooked]), early);
}

#[test]
fn an_effect_that_commits_happens_once_and_once_more_after_its_key_was_forgotten() {
    let again = Wrong::CommittedAgain { key: 0 };
    let forgotten = Forgotten { key: 0, at: 1 };
    assert_eq!(judged(&[COMMIT, EFFECT, EFFECT]), []);
    assert_eq!(judged(&[COMMIT, COMMIT]), [again]);
    assert_eq!(judged(&[COMMIT, forgotten, COMMIT]), []);
    assert_eq!(judged(&[COMMIT, forgotten, COMMIT, COMMIT]), [again]);
}

#[test]
fn a_key_has_one_live_owner() {
    let [first, second] = [started(0, 1), started(1, 2)];
    let two = [Wrong::TwoOwners { stale: 0, owner: 1 }];
    let runs_on = RunsOn(attempt(0));
    assert_eq!(judged(&[first, runs_on, stopped(0), second]), []);
    assert_eq!(judged(&[first, second]), two);
    // The first one was frozen meanwhile, and its code goes on, or begins only now.
    assert_eq!(judged(&[first, stopped(0), second, runs_on]), two);
    assert_eq!(judged(&[second, stopped(1), first]), two);
    let thawed = Resumed(attempt(0));
    assert_eq!(judged(&[first, stopped(0), thawed, second]), two);
    // A worker whose key was forgotten does not own it.
    let forgotten = Forgotten { key: 0, at: 1 };
    assert_eq!(judged(&[first, forgotten, second, runs_on]), []);
}

#[test]
fn without_claims_two_workers_may_run_one_key() {
    let unclaimed = |number| Event::Started {
        attempt: attempt(number),
        admitted: 1,
        owns: false,
    };
    assert_eq!(judged(&[unclaimed(0), unclaimed(1)]), []);
}

#[test]
fn the_effects_of_a_group_keep_its_order() {
    let sent = |key, group| Sent {
        key,
        payload: 0,
        group: Some(group),
    };
    let [of_first, of_second] = [0, 1].map(EffectOf);
    let effect = |key| Effect {
        key,
        payload: 0,
        commits: false,
    };
    let both = [sent(0, 0), sent(1, 0)];
    let overtook = Wrong::Overtook {
        message: 1,
        skipped: 0,
    };
    let after = |events: &[Event]| judged(&[&both[..], events].concat());
    assert_eq!(after(&[effect(0), of_first, effect(1), of_second]), []);
    assert_eq!(after(&[effect(1), of_second]), [overtook]);
    // The earlier message is a dead letter, or in another group.
    assert_eq!(after(&[Left(0), effect(1), of_second]), []);
    let apart = [sent(0, 0), sent(1, 1), effect(1), of_second];
    assert_eq!(judged(&apart), []);
}
