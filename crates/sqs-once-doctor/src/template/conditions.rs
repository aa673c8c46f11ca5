//! The cases that a template's conditions make.

use super::node::{Entry, Node};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The conditions that hold, and those that do not hold, by name. A condition that is not here may do either.
pub(crate) type Case = BTreeMap<String, bool>;

/// With more cases than those of four conditions, each comparison is judged alone, and not with the others.
const MOST_CASES: usize = 16;
/// Assignments of comparisons, of which many make the same case. CDK compares the Region with a list.
const MOST_ASSIGNMENTS: usize = 256;
/// A condition that refers to one that refers to one needs three rounds.
const ROUNDS: usize = 25;

/// The cases that a template has. Conditions may rest on the same comparison, and then are not independent.
pub(super) fn cases(root: &Node) -> Vec<Case> {
    let mut names = BTreeSet::new();
    root.conditions(&mut names);
    let defined = root.get("Conditions").map_or(&[][..], Node::entries);
    let atoms = atoms(&names, defined);
    let distinct = |given: Vec<Case>| {
        let mut cases: Vec<Case> = Vec::new();
        for given in given {
            let mut case = completed(given, defined);
            case.retain(|name, _| names.contains(&**name));
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases
    };
    let cases = together(&atoms).map(distinct);
    cases
        .filter(|it| it.len() <= MOST_CASES)
        .unwrap_or_else(|| {
            let alone = |name: &String| [true, false].map(|is| Case::from([(name.clone(), is)]));
            let alone = atoms.keys().flat_map(alone);
            distinct([Case::new()].into_iter().chain(alone).collect())
        })
}

/// The comparisons that these conditions rest on. A condition that the template does not define is one itself.
fn atoms(names: &BTreeSet<&str>, defined: &[Entry]) -> BTreeMap<String, Value> {
    let mut atoms = BTreeMap::new();
    let mut seen = names.clone();
    let mut left: Vec<&str> = names.iter().copied().collect();
    while let Some(name) = left.pop() {
        let Some(definition) = defined.iter().find(|it| it.key == name) else {
            atoms.insert(name.to_owned(), Value::Null);
            continue;
        };
        let mut parts = vec![&definition.value];
        while let Some(part) = parts.pop() {
            match part.intrinsic() {
                Some(("Fn::And" | "Fn::Or" | "Fn::Not", list)) => parts.extend(list.items()),
                Some(("Condition", name)) => {
                    let name = name.scalar().unwrap_or_default();
                    left.extend(seen.insert(name).then_some(name));
                }
                _ => {
                    let json = part.to_json();
                    atoms.insert(json.to_string(), json);
                }
            }
        }
    }
    atoms
}

/// Every assignment of the comparisons in which no value equals two texts. `None` if there are too many.
fn together(atoms: &BTreeMap<String, Value>) -> Option<Vec<Case>> {
    let is_possible = |case: &Case| {
        let held = atoms
            .iter()
            .filter(|(name, _)| case.get(*name) == Some(&true));
        let held: Vec<_> = held.filter_map(|(_, atom)| compared(atom)).collect();
        let exclude = |(value, text)| held.iter().any(|it| it.0 == value && it.1 != text);
        !held.iter().any(|it| exclude(*it))
    };
    let mut cases = vec![Case::new()];
    for name in atoms.keys() {
        let both = |case: Case| {
            [true, false].map(|holds| {
                let more = [(name.clone(), holds)];
                case.clone().into_iter().chain(more).collect::<Case>()
            })
        };
        cases = cases
            .into_iter()
            .flat_map(both)
            .filter(is_possible)
            .collect();
        if cases.len() > MOST_ASSIGNMENTS {
            return None;
        }
    }
    Some(cases)
}

/// What `Fn::Equals` compares with a text, and the text.
fn compared(atom: &Value) -> Option<(&Value, &str)> {
    let [one, other] = atom.get("Fn::Equals")?.as_array()?.as_slice() else {
        return None;
    };
    match (one.as_str(), other.as_str()) {
        (None, Some(text)) => Some((one, text)),
        (Some(text), None) => Some((other, text)),
        _ => None,
    }
}

/// Adds the conditions that follow from what is given.
fn completed(mut case: Case, defined: &[Entry]) -> Case {
    for _ in 0..ROUNDS {
        let before = case.len();
        for condition in defined {
            if let Some(holds) = holds(&condition.value, &case) {
                case.insert(condition.key.clone(), holds);
            }
        }
        if case.len() == before {
            break;
        }
    }
    case
}

/// Whether a condition holds, if `case` decides it.
fn holds(node: &Node, case: &Case) -> Option<bool> {
    let all = |list| Node::items(list).iter().map(|it| holds(it, case));
    match node.intrinsic() {
        Some(("Fn::Not", list)) => all(list).next()?.map(|it| !it),
        Some(("Fn::And", list)) if all(list).any(|it| it == Some(false)) => Some(false),
        Some(("Fn::Or", list)) if all(list).any(|it| it == Some(true)) => Some(true),
        Some(("Fn::And", list)) => all(list).all(|it| it.is_some()).then_some(true),
        Some(("Fn::Or", list)) => all(list).all(|it| it.is_some()).then_some(false),
        Some(("Condition", name)) => case.get(name.scalar()?).copied(),
        _ => case.get(&node.to_json().to_string()).copied(),
    }
}
