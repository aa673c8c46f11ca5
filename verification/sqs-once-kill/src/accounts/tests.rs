//! Short histories, each with at most one violation.

use std::time::{Duration, SystemTime};

use sqs_once_local::{NewMessage, Received, RecordLine};

use super::{Accounts, Window, Wrong, account};
use crate::history::Close::{self, AnswerLost, Deleted, EndedItself, Killed, Returned, TimedOut};
use crate::history::{History, name};
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
        history.sent(0, &Order::new(0, Duration::ZERO, is_spoilt), "m-0");
        Self { history, is_spoilt }
    }

    /// The code of its first attempt may outlive its invocation.
    fn outliving() -> Self {
        let tale = Self::new();
        tale.history.book().orders[0].outlives = true;
        tale
    }

    /// Each process gets the message once: its receive count is the process's number.
    fn message(&self, process: usize) -> [Received; 1] {
        let order = Order::new(0, Duration::ZERO, self.is_spoilt);
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
        self.history.begun(&Self::entry(process, process as u64));
        self
    }

    fn effect(self, process: usize) -> Self {
        self.history.effect(&Self::entry(process, process as u64));
        self
    }

    fn closed(self, process: usize, close: Close) -> Self {
        let messages = self.message(process);
        self.history.closed(process, &messages, close);
        self
    }

    fn frozen(self, process: usize) -> Self {
        self.history.frozen(process);
        self
    }

    fn thawed(self, process: usize) -> Self {
        self.history.thawed(process);
        self
    }

    fn gone(self, process: usize) -> Self {
        self.history.gone(process);
        self
    }

    /// The last note is of a much later time.
    fn later(self) -> Self {
        let last = self.history.book().orders[0].notes.pop();
        let mut last = last.unwrap();
        last.at += Duration::from_secs(60);
        self.history.book().orders[0].notes.push(last);
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
            reason: reason.map(str::to_owned),
            receive_count: Some(process as u64),
            ..RecordLine::default()
        };
        self.history.logged(process, vec![line]);
        self
    }

    /// Received, begun and done.
    fn tried(self, process: usize) -> Self {
        self.received(process).begun(process).effect(process)
    }

    /// Received, done, recorded and acknowledged.
    fn done(self, process: usize) -> Self {
        self.tried(process).recorded().closed(process, Deleted)
    }

    fn dead_letter(self) -> Self {
        self.history.book().orders[0].dead_letters = 1;
        self
    }

    fn account(&self, way: Way) -> Accounts {
        let book = std::mem::take(&mut *self.history.book());
        account(&plan(way), book, Duration::from_secs(1))
    }
}

#[test]
fn an_order_that_is_done_or_hopeless_adds_up() {
    let dead = Tale::new().received(0).closed(0, Killed);
    let killed = Tale::new().received(0).begun(0).closed(0, Killed);
    let hopeless = Tale::of(true).received(0).closed(0, Deleted);
    for (what, tale, effects, recovered) in [
        ("done once", Tale::new().done(0), 1, 0),
        ("killed before its effect", killed.done(1), 1, 1),
        // A request of the killed process arrives late.
        ("begun by a dead handler", dead.begun(0).done(1), 1, 1),
        ("hopeless", hopeless.dead_letter(), 0, 0),
    ] {
        let accounts = tale.account(Way::ClaimFirst);
        assert!(accounts.add_up(), "{what}: {accounts}");
        let counted = (accounts.effects, accounts.recovered);
        assert_eq!(counted, (effects, recovered), "{what}");
    }
}

#[test]
fn each_violation_is_seen() {
    let (new, tried) = (Tale::new, || Tale::new().tried(0));
    let hopeless = || Tale::of(true);
    let unasked = new().received(0).recorded().closed(0, Deleted);
    let unheard = tried().recorded().closed(0, AnswerLost);
    let not_moved = hopeless().received(0).closed(0, Deleted);
    let lost = vec![new(), unasked.effect(0), unheard, not_moved];
    let unrecorded = vec![tried().closed(0, Deleted)];
    let unexpected = vec![hopeless().done(0), new().done(0).effect(7)];
    let misplaced = vec![new().done(0).dead_letter()];
    // Before the effect, a request that went wrong explains nothing. A slow one never does.
    let failed_before = new().fault(TrafficFault::AnswerLost).tried(0);
    let duplicated = [
        failed_before.closed(0, Returned),
        tried().fault(TrafficFault::Slow).closed(0, Returned),
        tried().closed(0, Returned),
        tried().recorded().closed(0, Killed),
        tried().logged(0, "processed", None).closed(0, Killed),
        tried().closed(0, Deleted),
    ];
    let duplicated = duplicated.map(|tale| tale.done(1)).into();
    let both = new().received(0).received(1).begun(0).begun(1);
    // The code of an invocation that has ended runs on.
    let outlived = || Tale::outliving().received(0).begun(0);
    let lives_on = outlived().closed(0, TimedOut).done(1);
    let frozen = outlived().frozen(0).closed(0, TimedOut).done(1).thawed(0);
    let concurrent = vec![both.effect(0).done(2), lives_on, frozen.effect(0).later()];
    let unfenced = vec![new().tried(1).closed(1, Killed).done(0)];
    for (wrong, tales) in [
        (Wrong::Lost, lost),
        (Wrong::Unrecorded, unrecorded),
        (Wrong::Unexpected, unexpected),
        (Wrong::Misplaced, misplaced),
        (Wrong::Duplicated, duplicated),
        (Wrong::Concurrent, concurrent),
        (Wrong::Unfenced, unfenced),
    ] {
        for (number, tale) in tales.iter().enumerate() {
            let accounts = tale.account(Way::ClaimFirst);
            assert!(!accounts.add_up(), "{wrong:?}, {number}");
            let found = accounts.wrong(wrong);
            assert!(found > 0, "{wrong:?}, {number}: {accounts}");
        }
    }
}

#[test]
fn a_repetition_is_explained_by_what_came_between_the_effect_and_its_completion() {
    let tried = || Tale::new().tried(0);
    let failed = tried().fault(TrafficFault::AnswerLost);
    let late = tried().logged(0, "failed", Some("the deadline came"));
    for (tale, window) in [
        (tried().closed(0, Killed), Window::Killed),
        (tried().closed(0, TimedOut), Window::TimedOut),
        (failed.closed(0, Returned), Window::Unrecorded),
        (late.closed(0, Returned), Window::Deadline),
        (tried().closed(0, EndedItself), Window::EndedItself),
        (
            tried().frozen(0).thawed(0).closed(0, Returned),
            Window::Frozen,
        ),
    ] {
        let accounts = tale.done(1).account(Way::ClaimFirst);
        assert!(accounts.add_up(), "{window:?}: {accounts}");
        assert_eq!(accounts.windows.get(&window), Some(&1), "{accounts}");
    }
}

#[test]
fn code_that_outlives_its_invocation_is_alone_until_it_ends_or_is_frozen() {
    let outlived = || {
        let tale = Tale::outliving().received(0).begun(0);
        tale.logged(0, "failed", Some("the deadline came"))
    };
    let ended = outlived().closed(0, Returned).effect(0);
    let frozen = outlived().frozen(0).closed(0, TimedOut);
    for (tale, effects, windows) in [
        (ended.done(1), 2, vec![(Window::Deadline, 1)]),
        (outlived().closed(0, Returned).gone(0).done(1), 1, vec![]),
        (frozen.done(1).thawed(0).gone(0), 1, vec![]),
    ] {
        let accounts = tale.account(Way::ClaimFirst);
        assert!(accounts.add_up(), "{accounts}");
        assert_eq!(accounts.effects, effects, "{accounts}");
        assert_eq!(Vec::from_iter(accounts.windows.clone()), windows);
    }
    let thawed = outlived().frozen(0).closed(0, TimedOut).done(1).thawed(0);
    let accounts = thawed.effect(0).account(Way::ClaimFirst);
    assert!(accounts.add_up(), "{accounts}");
    assert_eq!(accounts.windows.get(&Window::Thawed), Some(&1));
}

/// Its request reaches the ledger just after the process is frozen.
#[test]
fn a_handler_that_is_killed_in_a_frozen_process_is_no_live_one() {
    let killed = Tale::new().received(0).frozen(0).begun(0);
    let accounts = killed.closed(0, Killed).done(1).account(Way::ClaimFirst);
    assert!(accounts.add_up(), "{accounts}");
}

#[test]
fn an_effect_that_the_table_counts_twice_is_seen() {
    for (times, adds_up) in [(1, true), (2, false), (0, false)] {
        let tale = Tale::new().received(0).recorded();
        tale.history.counted(0, 1);
        let tale = tale.closed(0, Deleted);
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
            let body = Order::new(order, Duration::ZERO, false);
            history.sent(order, &body, &format!("m-{order}"));
        }
        for order in [first, second] {
            let [mut received] = Tale::new().message(0);
            received.message.id = format!("m-{order}");
            received.message.body = received.message.body.replace("order-0", &name(order));
            history.received(0, &[received.clone()]);
            history.effect(&Entry {
                order_id: name(order),
                message_id: received.message.id.clone(),
                ..Tale::entry(0, 0)
            });
        }
        let accounts = account(
            &plan(Way::Fifo),
            std::mem::take(&mut *history.book()),
            Duration::from_secs(1),
        );
        let disordered = accounts.wrong(Wrong::Disordered);
        assert_eq!(
            disordered,
            usize::from(overtakes),
            "{first} {second}: {accounts}"
        );
    }
}
