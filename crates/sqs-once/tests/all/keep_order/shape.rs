//! What runs for the messages of a [`World`](super::world::World).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use sqs_once::body::Opened;
use sqs_once::extract::RecordEnd;
use sqs_once::{Consumer, HandlerError, ResultExt, Router, Writes};

use crate::support::{Mode, OpenedBy, Order, Seen, orders};
use crate::transactional::update;

/// The first broken order whose error is terminal. So is that of every fifth one after it.
pub(super) const TERMINAL: usize = 4;

/// What runs for a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    Handler(Mode),
    /// Broken orders fail in the hook, after their effect.
    Hook,
    /// Two handlers, and messages that are ignored.
    Router,
    Writes,
    /// Broken orders lack a dependency, which has a breaker.
    Dependency,
}

impl Shape {
    pub(super) const ALL: [Self; 6] = [
        Self::Handler(Mode::ClaimFirst),
        Self::Handler(Mode::RecordAfter),
        Self::Hook,
        Self::Router,
        Self::Writes,
        Self::Dependency,
    ];

    pub(super) fn consumer(self, fate: Fate) -> Consumer {
        let run = {
            let fate = fate.clone();
            move |order: Order| {
                let fate = fate.clone();
                async move { fate.meet(&order) }
            }
        };
        match self {
            Self::Handler(mode) => Consumer::new(mode.call(orders(), run).namespace("test")),
            Self::Hook => {
                let done = fate.done.clone();
                let handler = orders().call(move |order: Order| {
                    done.add(order.id);
                    async {}
                });
                let hook = move |end: RecordEnd| {
                    let id: Order = serde_json::from_str(end.message().content().unwrap()).unwrap();
                    let is_broken = fate.is_broken(&id);
                    async move {
                        match is_broken {
                            true => Err(HandlerError::retry("the hook has no luck")),
                            false => Ok(()),
                        }
                    }
                };
                Consumer::new(handler.on_done(hook).namespace("test"))
            }
            Self::Router => {
                let ignoring = OpenedBy(|_| Ok(Opened::ignored("nobody wants it")));
                let [charge, refund] = [Mode::ClaimFirst, Mode::RecordAfter]
                    .map(|mode| mode.call(orders(), run.clone()));
                let memo = orders().call(run).envelope(ignoring);
                let router = Router::by_attribute("type")
                    .route("charge", charge.namespace("charge"))
                    .route("refund", refund.namespace("refund"))
                    .route("memo", memo.namespace("memo"));
                Consumer::new(router)
            }
            Self::Writes => {
                let handler = orders().call(move |order: Order| {
                    let met = fate.meet(&order);
                    async move {
                        met?;
                        Ok::<_, HandlerError>(Writes::new().update(update(&order.id)))
                    }
                });
                Consumer::new(handler.namespace("test"))
            }
            Self::Dependency => {
                let handler = orders().call(move |order: Order| {
                    let met = fate.meet(&order).unavailable("bank");
                    async move { met }
                });
                Consumer::new(handler.depends_on("bank").namespace("test"))
            }
        }
    }

    /// The attribute `type` of an order's message.
    pub(super) fn route(self, order: usize) -> &'static str {
        ["charge", "refund", "memo"][order % 3]
    }

    pub(super) fn ignores(self, order: usize) -> bool {
        self == Self::Router && self.route(order) == "memo"
    }
}

/// What becomes of the orders.
#[derive(Clone, Default)]
pub(super) struct Fate {
    pub(super) broken: Arc<Mutex<BTreeSet<usize>>>,
    pub(super) done: Seen,
}

impl Fate {
    fn is_broken(&self, order: &Order) -> bool {
        let broken = self.broken.lock().unwrap();
        broken.contains(&order.id.parse().unwrap())
    }

    fn meet(&self, order: &Order) -> Result<(), HandlerError> {
        if self.is_broken(order) {
            return Err(match order.id.parse::<usize>().unwrap() % 5 {
                TERMINAL => HandlerError::terminal("no luck at all"),
                _ => HandlerError::retry("no luck"),
            });
        }
        self.done.add(order.id.clone());
        Ok(())
    }
}
