//! Random conditions and updates, and the requests' own form of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value as Json, json};

/// Attributes of the store, of a handler's own items, and one that is never there.
const NAMES: [&str; 12] = [
    "status",
    "owner",
    "expiration",
    "in_progress_expiration",
    "fence",
    "data",
    "times",
    "tags",
    "marks",
    "journal",
    "flag",
    "absent",
];

/// The placeholders of one request.
#[derive(Default)]
pub(crate) struct Placeholders {
    pub(crate) names: BTreeMap<String, String>,
    pub(crate) values: BTreeMap<String, Json>,
}

impl Placeholders {
    /// Puts them into a request, if there are any.
    pub(crate) fn insert_into(self, request: &mut Json) {
        if !self.names.is_empty() {
            request["ExpressionAttributeNames"] = json!(self.names);
        }
        if !self.values.is_empty() {
            request["ExpressionAttributeValues"] = json!(self.values);
        }
    }

    fn value(&mut self, value: &Json) -> String {
        let name = format!(":v{}", self.values.len());
        self.values.insert(name.clone(), value.clone());
        name
    }
}

/// The name of an attribute, and whether it stands for itself.
#[derive(Clone, Debug)]
pub(crate) struct Name(&'static str, bool);

impl Name {
    fn text(&self, placeholders: &mut Placeholders) -> String {
        if self.1 {
            return self.0.to_owned();
        }
        let name = format!("#{}", self.0);
        placeholders.names.insert(name.clone(), self.0.to_owned());
        name
    }

    pub(crate) fn of(name: &'static str) -> Self {
        Self(name, false)
    }

    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }

    pub(crate) fn plain(&self) -> &'static str {
        self.0
    }
}

pub(crate) fn name() -> impl Strategy<Value = Name> {
    (select(NAMES.as_slice()), prop::bool::weighted(0.1)).prop_map(|(name, bare)| Name(name, bare))
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0_u64..6).prop_map(|number| number.to_string()),
        4 => (1_790_000_000_u64..1_790_000_004).prop_map(|secs| secs.to_string()),
        4 => (1_790_000_000_000_u64..1_790_000_000_004).prop_map(|millis| millis.to_string()),
        1 => select(["-1", "0.5", "1.50", "1e3", "-0", "007", "1790000000.25", "1e-130", "9.9999e125"].as_slice())
            .prop_map(str::to_owned),
        1 => select(["12345678901234567890123456789012345678", "0.00000000000000000000000000000000000001"].as_slice())
            .prop_map(str::to_owned),
    ]
}

fn text() -> impl Strategy<Value = String> {
    select(
        [
            "INPROGRESS",
            "COMPLETED",
            "PAUSED",
            "a",
            "ab",
            "b",
            "",
            "é",
            "𝄞",
        ]
        .as_slice(),
    )
    .prop_map(str::to_owned)
}

/// Values that have an order, and are of one type.
pub(crate) fn ordered() -> impl Strategy<Value = [Json; 2]> {
    prop_oneof![
        (text(), text()).prop_map(|pair| pair_of("S", pair)),
        (number(), number()).prop_map(|pair| pair_of("N", pair)),
    ]
}

fn pair_of(of: &str, pair: (String, String)) -> [Json; 2] {
    [json!({ of: pair.0 }), json!({ of: pair.1 })]
}

fn set() -> impl Strategy<Value = Json> {
    let texts = prop::sample::subsequence(vec!["a", "ab", "b", "COMPLETED"], 1..=3);
    let numbers = prop::sample::subsequence(vec!["0", "1", "2", "5"], 1..=3);
    let blobs = prop::sample::subsequence(vec!["AA==", "AQ=="], 1..=2);
    prop_oneof![
        2 => texts.prop_map(|set| json!({ "SS": set })),
        2 => numbers.prop_map(|set| json!({ "NS": set })),
        1 => blobs.prop_map(|set| json!({ "BS": set })),
    ]
}

/// A value of any type, of those that come often mostly.
pub(crate) fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        5 => text().prop_map(|text| json!({ "S": text })),
        5 => number().prop_map(|number| json!({ "N": number })),
        1 => any::<bool>().prop_map(|truth| json!({ "BOOL": truth })),
        1 => Just(json!({ "NULL": true })),
        1 => select(["", "AA==", "AAE=", "AQ=="].as_slice()).prop_map(|bytes| json!({ "B": bytes })),
                5 => set(),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|list| json!({ "L": list })),
            prop::collection::btree_map(select(["a", "b"].as_slice()), inner, 0..2)
                .prop_map(|map| json!({ "M": map })),
        ]
    })
}

/// The attributes of an item, its key apart.
pub(crate) fn attributes() -> impl Strategy<Value = BTreeMap<String, Json>> {
    let any =
        prop::collection::btree_map(select(&NAMES[..11]).prop_map(str::to_owned), value(), 0..5);
    let time = |base: u64| (base..base + 4).prop_map(|time| json!({ "N": time.to_string() }));
    // What the store writes, and what Powertools does, without owner and fence.
    let status = select(["INPROGRESS", "COMPLETED", "PAUSED"].as_slice());
    let stored = (
        status,
        time(1_790_000_000),
        time(1_790_000_000_000),
        prop::option::of(0_u8..3),
    )
        .prop_map(|(status, expiration, lease, owner)| {
            let mut item = BTreeMap::from([
                ("status".to_owned(), json!({ "S": status })),
                ("expiration".to_owned(), expiration),
                ("in_progress_expiration".to_owned(), lease),
            ]);
            if let Some(owner) = owner {
                item.insert("owner".to_owned(), json!({ "S": format!("{owner:032x}") }));
                item.insert("fence".to_owned(), json!({ "N": owner.to_string() }));
            }
            item
        });
    prop_oneof![any, stored]
}

#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Name(Name),
    Size(Name),
    Value(Json),
}

impl Operand {
    fn text(&self, placeholders: &mut Placeholders) -> String {
        match self {
            Self::Name(name) => name.text(placeholders),
            Self::Size(name) => format!("size({})", name.text(placeholders)),
            Self::Value(value) => placeholders.value(value),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Exists(Name),
    NotExists(Name),
    IsOf(Name, Json),
    BeginsWith(Name, Json),
    Contains(Name, Operand),
    Compare(Operand, &'static str, Operand),
    Between(Operand, Operand, Operand),
    In(Name, Vec<Operand>),
    Not(Box<Condition>),
    Both(Box<Condition>, &'static str, Box<Condition>),
    /// What nobody may write.
    Wrong(&'static str),
}

impl Condition {
    pub(crate) fn text(&self, placeholders: &mut Placeholders) -> String {
        match self {
            Self::Exists(name) => format!("attribute_exists({})", name.text(placeholders)),
            Self::NotExists(name) => format!("attribute_not_exists({})", name.text(placeholders)),
            Self::IsOf(name, of) => {
                let name = name.text(placeholders);
                format!("attribute_type({name}, {})", placeholders.value(of))
            }
            Self::BeginsWith(name, start) => {
                let name = name.text(placeholders);
                format!("begins_with({name}, {})", placeholders.value(start))
            }
            Self::Contains(name, part) => {
                let name = name.text(placeholders);
                format!("contains({name}, {})", part.text(placeholders))
            }
            Self::Compare(left, comparator, right) => {
                let left = left.text(placeholders);
                format!("{left} {comparator} {}", right.text(placeholders))
            }
            Self::Between(operand, low, high) => {
                let operand = operand.text(placeholders);
                let low = low.text(placeholders);
                format!("{operand} BETWEEN {low} AND {}", high.text(placeholders))
            }
            Self::In(name, any) => {
                let name = name.text(placeholders);
                let any: Vec<_> = any.iter().map(|one| one.text(placeholders)).collect();
                format!("{name} IN ({})", any.join(", "))
            }
            Self::Not(inner) => format!("NOT ({})", inner.text(placeholders)),
            Self::Both(left, with, right) => {
                let left = left.text(placeholders);
                format!("({left}) {with} ({})", right.text(placeholders))
            }
            Self::Wrong(text) => (*text).to_owned(),
        }
    }
}

/// An attribute, or a value that has an order.
fn ordered_operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        3 => name().prop_map(Operand::Name),
        1 => name().prop_map(Operand::Size),
        6 => ordered().prop_map(|[value, _]| Operand::Value(value)),
    ]
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        3 => name().prop_map(Operand::Name),
        1 => name().prop_map(Operand::Size),
        6 => value().prop_map(Operand::Value),
    ]
}

/// No attribute is compared with itself, which DynamoDB refuses and not everyone does.
fn are_two(left: &Operand, right: &Operand) -> bool {
    match (left, right) {
        (Operand::Name(left), Operand::Name(right)) => left.plain() != right.plain(),
        _ => true,
    }
}

/// Compared with what is often there.
fn likely() -> impl Strategy<Value = Condition> {
    let statuses = select(["INPROGRESS", "COMPLETED"].as_slice());
    let status = statuses.prop_map(|status| ("status", "=", json!({ "S": status })));
    let owner = (0_u8..3, select(["=", "<>"].as_slice()))
        .prop_map(|(owner, sign)| ("owner", sign, json!({ "S": format!("{owner:032x}") })));
    let lease = (0_u64..5).prop_map(|at| {
        (
            "in_progress_expiration",
            "<",
            json!({ "N": (1_790_000_000_000 + at).to_string() }),
        )
    });
    let expiration = (0_u64..5).prop_map(|at| {
        (
            "expiration",
            "<",
            json!({ "N": (1_790_000_000 + at).to_string() }),
        )
    });
    let any = prop_oneof![status, owner, lease, expiration];
    any.prop_map(|(name, sign, value)| {
        Condition::Compare(
            Operand::Name(Name(name, false)),
            sign,
            Operand::Value(value),
        )
    })
}

pub(crate) fn condition() -> impl Strategy<Value = Condition> {
    let equal = select(["=", "<>"].as_slice());
    let comparator = select(["<", "<=", ">", ">="].as_slice());
    let types = select(["S", "N", "BOOL", "SS", "L", "M", "NULL"].as_slice())
        .prop_map(|of| json!({ "S": of }));
    let wrong = select(
        [
            "",
            "status",
            "attribute_exists(",
            "a = ",
            "size(data)",
            "a == b",
        ]
        .as_slice(),
    );
    let leaf = prop_oneof![
        12 => likely(),
        3 => name().prop_map(Condition::Exists),
        3 => name().prop_map(Condition::NotExists),
        1 => (name(), types).prop_map(|(name, of)| Condition::IsOf(name, of)),
        1 => (name(), text()).prop_map(|(name, start)| Condition::BeginsWith(name, json!({ "S": start }))),
        1 => (name(), operand()).prop_filter("two", |(name, part)| are_two(&Operand::Name(name.clone()), part)).prop_map(|(name, part)| Condition::Contains(name, part)),
        3 => (operand(), equal, operand()).prop_filter("two", |(left, _, right)| are_two(left, right)).prop_map(|(left, sign, right)| Condition::Compare(left, sign, right)),
        3 => (ordered_operand(), comparator, ordered_operand()).prop_filter("two", |(left, _, right)| are_two(left, right)).prop_map(|(left, sign, right)| Condition::Compare(left, sign, right)),
        1 => (ordered_operand(), 0_u8..4, 0_u8..4, select(["S", "N"].as_slice())).prop_map(|(one, low, more, of)| {
            let bound = |number: u8| Operand::Value(json!({ of: number.to_string() }));
            Condition::Between(one, bound(low), bound(low + more))
        }),
        1 => (name(), vec(operand(), 1..4)).prop_map(|(name, any)| Condition::In(name, any)),
        1 => wrong.prop_map(Condition::Wrong),
    ];
    leaf.prop_recursive(2, 5, 2, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|inner| Condition::Not(Box::new(inner))),
            4 => (inner.clone(), select(["AND", "OR"].as_slice()), inner)
                .prop_map(|(left, with, right)| Condition::Both(Box::new(left), with, Box::new(right))),
        ]
    })
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Set(Name, Term),
    Remove(Name),
    Add(Name, Json),
    Delete(Name, Json),
}

impl Action {
    fn target(&self) -> &'static str {
        let (Self::Set(name, _) | Self::Remove(name) | Self::Add(name, _) | Self::Delete(name, _)) =
            self;
        name.plain()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Term {
    Of(Operand),
    IfNotExists(Name, Operand),
    ListAppend(Operand, Operand),
    Sum(Operand, &'static str, Operand),
    /// What the store does with the fence.
    OneMore(Name),
}

impl Term {
    pub(crate) fn text(&self, placeholders: &mut Placeholders) -> String {
        match self {
            Self::Of(operand) => operand.text(placeholders),
            Self::IfNotExists(name, otherwise) => {
                let name = name.text(placeholders);
                format!("if_not_exists({name}, {})", otherwise.text(placeholders))
            }
            Self::ListAppend(first, second) => {
                let first = first.text(placeholders);
                format!("list_append({first}, {})", second.text(placeholders))
            }
            Self::Sum(left, sign, right) => {
                let left = left.text(placeholders);
                format!("{left} {sign} {}", right.text(placeholders))
            }
            Self::OneMore(name) => {
                let name = name.text(placeholders);
                let zero = placeholders.value(&json!({ "N": "0" }));
                let one = placeholders.value(&json!({ "N": "1" }));
                format!("if_not_exists({name}, {zero}) + {one}")
            }
        }
    }
}

/// Paths and values: an update knows no sizes.
fn term_operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        1 => name().prop_map(Operand::Name),
        4 => value().prop_map(Operand::Value),
    ]
}

/// Values of the wrong type are refused before the item is looked at: alone everywhere, but in a transaction not
/// everywhere in the same way.
fn list() -> impl Strategy<Value = Operand> {
    prop_oneof![
        name().prop_map(Operand::Name),
        vec(value(), 0..2).prop_map(|list| Operand::Value(json!({ "L": list }))),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    let sign = select(["+", "-"].as_slice());
    let number = || {
        prop_oneof![
            1 => name().prop_map(Operand::Name),
            4 => number().prop_map(|number| Operand::Value(json!({ "N": number }))),
        ]
    };
    prop_oneof![
        6 => term_operand().prop_map(Term::Of),
        1 => (name(), term_operand()).prop_map(|(name, otherwise)| Term::IfNotExists(name, otherwise)),
                1 => (list(), list()).prop_map(|(first, second)| Term::ListAppend(first, second)),
        2 => (number(), sign, number()).prop_map(|(left, sign, right)| Term::Sum(left, sign, right)),
        2 => name().prop_map(Term::OneMore),
    ]
}

/// What a handler does with a counter.
fn counting() -> impl Strategy<Value = Action> {
    let counter = select(["times", "fence"].as_slice()).prop_map(Name::of);
    let number = (0_u8..6).prop_map(|number| json!({ "N": number.to_string() }));
    (counter, select(["", "+", "-"].as_slice()), number).prop_map(|(counter, sign, number)| {
        let term = match sign {
            "" => return Action::Add(counter, number),
            "+" => Term::OneMore(counter.clone()),
            sign => Term::Sum(Operand::Name(counter.clone()), sign, Operand::Value(number)),
        };
        Action::Set(counter, term)
    })
}

pub(crate) fn actions() -> impl Strategy<Value = Vec<Action>> {
    let added = prop_oneof![
                2 => number().prop_map(|number| json!({ "N": number })),
        1 => set(),
    ];
    let action = prop_oneof![
        6 => (name(), term()).prop_map(|(name, term)| Action::Set(name, term)),
        2 => name().prop_map(Action::Remove),
        3 => (name(), added).prop_map(|(name, value)| Action::Add(name, value)),
        1 => (name(), set()).prop_map(|(name, value)| Action::Delete(name, value)),
    ];
    // What is changed twice is refused, but not everywhere before the condition is looked at.
    let any = vec(action, 0..4).prop_map(|mut actions| {
        let mut targets = BTreeSet::new();
        actions.retain(|action| targets.insert(action.target()));
        actions
    });
    prop_oneof![4 => any, 1 => counting().prop_map(|action| vec![action])]
}

/// The update expression.
pub(crate) fn update(actions: &[Action], placeholders: &mut Placeholders) -> String {
    let mut clauses = BTreeMap::<&str, Vec<String>>::new();
    for action in actions {
        let (clause, text) = match action {
            Action::Set(name, term) => {
                let name = name.text(placeholders);
                ("SET", format!("{name} = {}", term.text(placeholders)))
            }
            Action::Remove(name) => ("REMOVE", name.text(placeholders)),
            Action::Add(name, value) => {
                let name = name.text(placeholders);
                ("ADD", format!("{name} {}", placeholders.value(value)))
            }
            Action::Delete(name, value) => {
                let name = name.text(placeholders);
                ("DELETE", format!("{name} {}", placeholders.value(value)))
            }
        };
        clauses.entry(clause).or_default().push(text);
    }
    let clauses = clauses
        .iter()
        .map(|(clause, all)| format!("{clause} {}", all.join(", ")));
    clauses.collect::<Vec<_>>().join(" ")
}
