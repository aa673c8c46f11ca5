//! The protocol holds in the model, and does not without its guards.

use sqs_once_sim::model::{Config, Mutant, check, properties, shortest};

#[test]
fn every_small_model_holds() {
    for config in Config::small() {
        let verdict = check(&config, 2);
        println!("{verdict}");
        assert!(verdict.is_as_expected(), "{verdict}");
    }
}

/// The first property that a mutant breaks in one of the small models, with the way there.
fn broken_by(mutant: Mutant, property: &str) {
    let mut broken = Vec::new();
    for config in Config::small() {
        let verdict = shortest(&config.with(mutant));
        if verdict.broken().contains(&property) {
            println!("without its guard, {mutant}:\n{verdict}");
            return;
        }
        broken.extend(verdict.broken());
    }
    panic!("{mutant} does not break {property:?}, but {broken:?}");
}

macro_rules! mutants {
    ($($test:ident: $mutant:ident breaks $property:ident;)*) => {$(
        #[test]
        fn $test() {
            broken_by(Mutant::$mutant, properties::$property);
        }
    )*};
}

mutants! {
    a_completion_needs_its_owner: CompleteByAnyone breaks STALE_OWNERS_CHANGE_NOTHING;
    a_release_needs_its_owner: ReleaseByAnyone breaks STALE_OWNERS_CHANGE_NOTHING;
    a_claim_looks_at_the_status: ClaimOverCompletion breaks RECORDED_IS_NOT_REPEATED;
    a_claim_leaves_its_own_release_alone: ClaimOverOwnRelease breaks NO_CLAIM_COMES_BACK;
    a_claim_recognises_its_own_copy: NoSelfRecognition breaks NO_CLAIM_REFUSES_ITSELF;
    a_lease_has_a_margin: NoLeaseMargin breaks ONE_LIVE_OWNER;
    a_release_leaves_the_item: ReleaseDeletes breaks NO_CLAIM_COMES_BACK;
    busy_is_not_done: BusyIsDone breaks ACKNOWLEDGED_IS_COMMITTED;
    unknown_is_not_done: UnknownIsDone breaks ACKNOWLEDGED_IS_COMMITTED;
    a_fence_grows: FenceStands breaks FENCES_GROW;
    unconditional_writes_undo_claims: Unconditional breaks STALE_OWNERS_CHANGE_NOTHING;
}
