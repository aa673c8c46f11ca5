//! Short histories, each with at most one violation.

use std::time::{Duration, SystemTime};

use sqs_once_local::{NewMessage, Received, RecordLine};

use super::{Accounts, Window, Wrong, account};
use crate::history::{Close, History, name};
use crate::network::TrafficFault;
use crate::plan::{Plan, Way};
use crate::worker::{Entry, Order};

fn plan(way: Way) -> Plan {
    Plan {
        way,
        ..Plan::default()
    }
}

/// The history of one order, `order-0`, in the processes 0, 1, …
struct Tale {
    history: History,
    is_spoilt: bool,
}

impl Tale {
    fn new() -> Self {
        Self::of(false)
    }

    fn of(is_spoilt: bool) -> Self {
        let history = History::new();
        history.sent(0, is_spoilt, "m-0");
        Self { history, is_spoilt }
    }

    /// Each process gets the message once: its receive count is the process's number.
    fn message(&self, process: usize) -> [Received; 1] {
        let order = Order {
            order_id: name(0),
            work_ms: 0,
            is_spoilt: self.is_spoilt,
        };
        let now = SystemTime::now();
        [Received {
            receipt_handle: String::new(),
            message: NewMessage::new("m-0", serde_json::to_string(&order).unwrap()),
            receive_count: u32::try_from(process).unwrap(),
            sent_at: now,
            first_received_at: now,
            sequence_number: 0,
            dead_letter_source: None,
        }]
    }

    fn entry(process: usize, fence: u64) -> Entry {
        Entry {
            order_id: name(0),
            process,
            message_id: "m-0".to_owned(),
            receive_count: u32::try_from(process).unwrap(),
            fence,
            token: "token".to_owned(),
        }
    }

    fn received(self, process: usize) -> Self {
        self.history.received(process, &self.message(process));
        self
    }

    fn begun(self, process: usize) -> Self {
        self.history.begun(Self::entry(process, process as u64));
        self
    }

    fn effect(self, process: usize) -> Self {
        self.history.effect(Self::entry(process, process as u64));
        self
    }

    fn closed(self, process: usize, close: Close) -> Self {
        let messages = self.message(process);
        self.history.closed(process, &messages, close);
        self
    }

    fn recorded(self) -> Self {
        self.history.recorded(0);
        self
    }

    fn fault(self, fault: TrafficFault) -> Self {
        self.history.fault(fault, "Settle", &[0]);
        self
    }

    fn logged(self, process: usize, outcome: &str, reason: Option<&str>) -> Self {
        let line = RecordLine {
            message_id: "m-0".to_owned(),
            outcome: outcome.to_owned(),
            duration_ms: None,
            reason: reason.map(str::to_owned),
            key: None,
            receive_count: Some(process as u64),
        };
        self.history.logged(process, vec![line]);
        self
    }

    /// Received, done, recorded and acknowledged.
    fn done(self, process: usize) -> Self {
        self.received(process)
            .begun(process)
            .effect(process)
            .recorded()
            .closed(process, Close::Deleted)
    }

    fn account(&self, way: Way) -> Accounts {
        account(&plan(way), &self.history.book(), Duration::from_secs(1))
    }

    fn assert_adds_up(&self) -> Accounts {
        let accounts = self.account(Way::ClaimFirst);
        assert!(accounts.add_up(), "{accounts}");
        accounts
    }

    fn assert_wrong(&self, wrong: Wrong) {
        let accounts = self.account(Way::ClaimFirst);
        assert!(!accounts.add_up());
        assert!(accounts.wrong(wrong) > 0, "no {wrong:?}: {accounts}");
    }

    fn assert_repeated_through(&self, window: Window) {
        let accounts = self.assert_adds_up();
        assert_eq!(accounts.windows.get(&window), Some(&1), "{accounts}");
    }
}

#[test]
fn an_order_that_is_done_once_adds_up() {
    let accounts = Tale::new().done(0).assert_adds_up();
    assert_eq!((accounts.effects, accounts.recovered), (1, 0));
}

#[test]
fn an_order_whose_process_was_killed_before_its_effect_is_recovered() {
    let killed = Tale::new().received(0).begun(0).closed(0, Close::Killed);
    let accounts = killed.done(1).assert_adds_up();
    assert_eq!((accounts.effects, accounts.recovered), (1, 1));
}

#[test]
fn an_acknowledgement_before_the_effect_is_a_loss() {
    let early = Tale::new().received(0).recorded().closed(0, Close::Deleted);
    early.effect(0).assert_wrong(Wrong::Lost);
}

#[test]
fn an_order_that_is_never_done_or_never_acknowledged_is_lost() {
    Tale::new().assert_wrong(Wrong::Lost);
    let unheard = Tale::new().received(0).begun(0).effect(0).recorded();
    unheard
        .closed(0, Close::AnswerLost)
        .assert_wrong(Wrong::Lost);
}

#[test]
fn an_acknowledgement_without_a_record_is_seen() {
    let unrecorded = Tale::new().received(0).begun(0).effect(0);
    unrecorded
        .closed(0, Close::Deleted)
        .assert_wrong(Wrong::Unrecorded);
}

#[test]
fn an_effect_of_a_hopeless_order_and_one_of_no_delivery_are_unexpected() {
    Tale::of(true).done(0).assert_wrong(Wrong::Unexpected);
    Tale::new()
        .done(0)
        .effect(7)
        .assert_wrong(Wrong::Unexpected);
}

#[test]
fn a_hopeless_order_belongs_into_the_dead_letter_queue_and_no_other() {
    let hopeless = Tale::of(true).received(0).closed(0, Close::Deleted);
    hopeless.assert_wrong(Wrong::Lost);
    hopeless.history.book().orders[0].dead_letters = 1;
    hopeless.assert_adds_up();
    let done = Tale::new().done(0);
    done.history.book().orders[0].dead_letters = 1;
    done.assert_wrong(Wrong::Misplaced);
}

#[test]
fn a_repetition_is_explained_by_a_kill_or_a_timeout_before_the_record() {
    for (close, window) in [
        (Close::Killed, Window::Killed),
        (Close::TimedOut, Window::TimedOut),
    ] {
        let cut_off = Tale::new().received(0).begun(0).effect(0).closed(0, close);
        cut_off.done(1).assert_repeated_through(window);
    }
}

#[test]
fn a_repetition_is_explained_by_a_request_that_went_wrong_after_the_effect_and_by_none_before() {
    let failed = |tale: Tale| tale.closed(0, Close::Returned).done(1);
    let after = Tale::new().received(0).begun(0).effect(0);
    failed(after.fault(TrafficFault::AnswerLost)).assert_repeated_through(Window::Unrecorded);
    let before = Tale::new()
        .fault(TrafficFault::AnswerLost)
        .received(0)
        .begun(0);
    failed(before.effect(0)).assert_wrong(Wrong::Duplicated);
    let slow = Tale::new().received(0).begun(0).effect(0);
    failed(slow.fault(TrafficFault::Slow)).assert_wrong(Wrong::Duplicated);
}

#[test]
fn a_repetition_is_explained_by_a_deadline_that_was_logged() {
    let returned = Tale::new().received(0).begun(0).effect(0);
    let late = returned.logged(0, "failed", Some("the deadline came"));
    late.closed(0, Close::Returned)
        .done(1)
        .assert_repeated_through(Window::Deadline);
}

#[test]
fn nothing_explains_the_repetition_of_what_was_on_record_logged_or_acknowledged() {
    let effect = || Tale::new().received(0).begun(0).effect(0);
    for repeated in [
        effect().recorded().closed(0, Close::Killed),
        effect()
            .logged(0, "processed", None)
            .closed(0, Close::Killed),
        effect().closed(0, Close::Deleted),
        effect().closed(0, Close::Returned),
    ] {
        repeated.done(1).assert_wrong(Wrong::Duplicated);
    }
}

#[test]
fn two_handlers_at_once_are_seen_and_one_after_a_dead_one_is_none() {
    let both = Tale::new().received(0).received(1).begun(0).begun(1);
    both.effect(0).done(2).assert_wrong(Wrong::Concurrent);
    // A request of the killed process arrives late.
    let dead = Tale::new().received(0).closed(0, Close::Killed).begun(0);
    dead.done(1).assert_adds_up();
}

#[test]
fn a_fence_that_does_not_grow_is_seen() {
    let second = Tale::new().received(1).begun(1).effect(1);
    let first = second.closed(1, Close::Killed).received(0).begun(0);
    first
        .effect(0)
        .recorded()
        .closed(0, Close::Deleted)
        .assert_wrong(Wrong::Unfenced);
}

#[test]
fn an_effect_that_the_table_counts_twice_is_seen() {
    let tale = Tale::new().received(0).recorded();
    tale.history.counted(0, 1);
    let tale = tale.closed(0, Close::Deleted);
    for (times, adds_up) in [(1, true), (2, false), (0, false)] {
        tale.history.book().orders[0].counted = Some(times);
        let accounts = tale.account(Way::Transactional);
        assert_eq!(accounts.add_up(), adds_up, "{accounts}");
    }
}

#[test]
fn an_order_that_overtakes_another_of_its_group_is_seen_and_one_of_another_group_is_none() {
    assert_eq!(Plan::group(0), Plan::group(1));
    assert_ne!(Plan::group(0), Plan::group(37));
    for (first, second, overtakes) in [(0, 1, false), (1, 0, true), (37, 0, false)] {
        let history = History::new();
        for order in [0, 1, 37] {
            history.sent(order, false, &format!("m-{order}"));
        }
        for order in [first, second] {
            let [mut received] = Tale::new().message(0);
            received.message.id = format!("m-{order}");
            received.message.body = received.message.body.replace("order-0", &name(order));
            history.received(0, &[received.clone()]);
            history.effect(Entry {
                order_id: name(order),
                message_id: received.message.id.clone(),
                ..Tale::entry(0, 0)
            });
        }
        let accounts = account(&plan(Way::Fifo), &history.book(), Duration::from_secs(1));
        let disordered = accounts.wrong(Wrong::Disordered);
        assert_eq!(
            disordered,
            usize::from(overtakes),
            "{first} {second}: {accounts}"
        );
    }
}
