//! The steps between a claim and its handler if the key has another id.

use super::super::decisions::{self, Ending, Looked, Verdict};
use super::super::fence::{Mark, Run};
use super::super::request::{Ask, Request, Saw};
use super::super::state::{Delivery, Item};
use super::Step;
use crate::simulation::Mutant;

impl Step<'_> {
    /// Reads the other id of a key whose claim is written.
    pub(super) fn read_other(&mut self, owner: Delivery, run: Run) -> Verdict {
        if self.config.has(Mutant::OtherIdReadFirst) {
            return Verdict::Run(run);
        }
        self.send(owner, Ask::ReadOther { run }, true);
        Verdict::Again
    }

    /// Decides by the item that was found under the other id.
    pub(super) fn decide(&mut self, owner: Delivery, run: Run, found: Option<Item>) -> Verdict {
        let looked = decisions::looked(self.config, owner, run, found);
        if !self.config.has(Mutant::OtherIdReadFirst) {
            return self.follow(owner, run, looked);
        }
        match looked {
            Looked::GiveBack(_, verdict) => verdict,
            _ => {
                self.ask_first(owner);
                Verdict::Again
            }
        }
    }

    /// Sends what follows from the other item.
    fn follow(&mut self, owner: Delivery, run: Run, looked: Looked) -> Verdict {
        let ask = match looked {
            Looked::Run(run) => return Verdict::Run(run),
            Looked::TakeOver => {
                let seen = Saw::Current;
                Ask::TakeOver { seen, run }
            }
            Looked::CarryOver {
                claimed,
                follows,
                run,
            } => {
                let worker = *self.worker_of(owner);
                Ask::CarryOver {
                    lease: super::lease_of(self.config, &worker),
                    claimed,
                    follows,
                    run,
                }
            }
            Looked::GiveBack(ending, verdict) => {
                let over = run.over;
                self.send(owner, Ask::GiveBack { ending, over }, false);
                return verdict;
            }
        };
        self.send(owner, ask, true);
        Verdict::Again
    }

    /// Claims the other id, released from the start.
    pub(super) fn take_over(&mut self, request: &Request, (seen, run): (Saw, Run)) -> Verdict {
        let (owner, item) = (request.owner, usize::from(request.item));
        let standing = self.world.items[item];
        let (written, looked) = decisions::taken(self.config, owner, (seen, run), standing);
        if written.is_some() {
            self.world.items[item] = written;
            self.count_claim(request, owner.taker());
        }
        match request.awaited {
            true => self.follow(owner, run, looked),
            false => Verdict::Again,
        }
    }

    /// Writes the fence that follows on the other id's. If it is refused, the worker claims its id again.
    pub(super) fn carry_over(
        &mut self,
        request: &Request,
        (lease, claimed, follows): (i8, Mark, Mark),
        run: Run,
    ) -> Verdict {
        let (owner, item) = (request.owner, usize::from(request.item));
        let ending = Ending::CarryOver {
            lease: Some(lease),
            claimed,
            follows,
        };
        match self.settle(owner, item, ending) {
            Verdict::Run(_) => {
                self.carried(item);
                Verdict::Run(run)
            }
            verdict if !request.awaited => verdict,
            _ => self.claim_again(owner, request.ask),
        }
    }

    /// Begins again with the claim, unless the deadline has passed.
    fn claim_again(&mut self, owner: Delivery, last: Ask) -> Verdict {
        if self.worker_of(owner).left < 0 {
            return Verdict::Failed;
        }
        let claim = super::ask_for(self.config, &self.world, owner, last);
        self.send(owner, claim, true);
        Verdict::Again
    }

    /// Ends a claim that the other item refused. Its record has ended.
    pub(super) fn give_back(&mut self, request: &Request, ending: Ending, over: bool) -> Verdict {
        let (owner, item) = (request.owner, usize::from(request.item));
        let before = self.world.items[item];
        let verdict = self.settle(owner, item, ending);
        let is_written = self.world.items[item] != before;
        match ending {
            Ending::CarryOver { .. } if is_written => self.carried(item),
            _ if is_written && !over => self.tells_age(item),
            _ => {}
        }
        verdict
    }
}
