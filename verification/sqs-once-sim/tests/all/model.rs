//! The protocol holds in the model, and breaks without each of its guards.

#![allow(clippy::print_stdout, reason = "what was found is worth seeing")]

use sqs_once_sim::model::{Config, check, properties, until_broken};
use sqs_once_sim::simulation::Mutant;

#[test]
fn every_small_model_holds() {
    for config in Config::small() {
        let verdict = check(&config, 2);
        println!("{verdict}");
        assert!(verdict.is_as_expected(), "{verdict}");
    }
}

/// Asserts that a mutant breaks this property in a small model, and prints the path.
fn broken_by(mutant: Mutant, config: &str, property: &str) {
    let mut all = Config::small().into_iter();
    let config = all.find(|one| one.name == config);
    let config = config.expect("a small configuration");
    let verdict = until_broken(&config.with(mutant));
    println!("without its guard, {mutant:?}:\n{verdict}");
    assert!(
        verdict.broken().contains(&property),
        "{mutant:?}: {verdict}"
    );
}

macro_rules! mutants {
    ($($test:ident: $mutant:ident in $config:literal breaks $property:ident;)*) => {$(
        #[test]
        fn $test() {
            broken_by(Mutant::$mutant, $config, properties::$property);
        }
    )*};
}

mutants! {
    a_completion_needs_its_owner: CompleteOthers in "claim-first-crash" breaks STALE_OWNERS_CHANGE_NOTHING;
    a_release_needs_its_owner: ReleaseOthers in "claim-first-late" breaks STALE_OWNERS_CHANGE_NOTHING;
    a_claim_looks_at_the_status: ClaimCompleted in "claim-first-crash" breaks RECORDED_IS_NOT_REPEATED;
    a_claim_leaves_its_own_release_alone: ClaimOwnLapsed in "claim-first-late" breaks NO_CLAIM_COMES_BACK;
    a_claim_looks_at_more_than_the_fence: ClaimFenceAlone in "claim-first-stale" breaks RECORDED_IS_NOT_REPEATED;
    a_claim_looks_at_the_fence: ClaimStateAlone in "claim-first-again" breaks NO_CLAIM_COMES_BACK;
    a_claim_recognises_its_own_copy: NoSelfRecognition in "claim-first-crash" breaks NO_CLAIM_REFUSES_ITSELF;
    a_lease_has_a_margin: NoLeaseMargin in "claim-first-crash" breaks ONE_LIVE_OWNER;
    a_release_leaves_the_item: ReleaseDeletes in "claim-first-late" breaks NO_CLAIM_COMES_BACK;
    busy_is_not_done: BusyIsDone in "claim-first-crash" breaks ACKNOWLEDGED_IS_COMMITTED;
    unknown_is_not_done: UnknownIsDone in "claim-first-silent" breaks ACKNOWLEDGED_IS_COMMITTED;
    a_fence_grows: FenceStays in "claim-first-crash" breaks FENCES_GROW;
    a_commit_leaves_its_own_completion_alone: CommitTwice in "writes-late" breaks EXACTLY_ONCE;
    an_effect_commits_with_its_record: EffectApart in "writes-late" breaks EXACTLY_ONCE;
    a_group_stops_behind_a_failure: GroupGoesOn in "fifo-late" breaks ORDER_IS_KEPT;
    a_renewal_needs_its_owner: RenewOthers in "claim-first-renewed" breaks STALE_OWNERS_CHANGE_NOTHING;
    a_renewal_shortens_no_lease: RenewShortens in "claim-first-renewed" breaks ONE_LIVE_OWNER;
    a_renewal_leaves_a_released_claim_alone: RenewReleased in "claim-first-renewed" breaks NO_CLAIM_COMES_BACK;
    a_forgotten_key_has_a_new_fence: ForgetKeepsFence in "claim-first-forgotten-silent" breaks NO_CLAIM_COMES_BACK;
    a_forgotten_key_has_a_new_owner: ForgetKeepsOwner in "claim-first-forgotten-late" breaks STALE_OWNERS_CHANGE_NOTHING;
    a_forgotten_key_keeps_its_item: ForgetDeletes in "claim-first-forgotten-late" breaks NO_CLAIM_COMES_BACK;
    a_forgotten_key_has_a_new_age: ForgetKeepsAge in "aged-forgotten" breaks FORGOTTEN_IS_NEW;
    a_key_with_two_ids_that_is_forgotten_has_a_new_age: ForgetKeepsAge in "two-ids-forgotten" breaks FORGOTTEN_IS_NEW;
    an_item_without_a_fence_tells_no_age: UnknownAgeIsNow in "aged-unknown" breaks TOKENS_ARE_VALID;
    an_item_without_a_fence_under_the_other_id_tells_no_age: OtherAgeIgnored in "two-ids-unknown" breaks TOKENS_ARE_VALID;
    a_fence_follows_on_the_other_id: OtherFenceIgnored in "two-ids-silent" breaks FENCES_GROW;
    a_fence_is_carried_over_before_the_handler_runs: CarryOverUnwritten in "two-ids-again" breaks FENCES_GROW;
    a_carried_fence_is_never_lowered: CarryOverLowers in "two-ids-retried" breaks FENCES_GROW;
    an_age_is_carried_over: OtherAgeIgnored in "two-ids-silent" breaks TOKENS_ARE_VALID;
    a_claim_that_the_other_id_refuses_makes_no_key_young: RefusedIsReleased in "two-ids-refused" breaks TOKENS_ARE_VALID;
    a_lapsed_claim_of_the_other_id_is_taken_over: OtherIdLeft in "two-ids-stale" breaks STALE_OWNERS_CHANGE_NOTHING;
    the_other_id_is_read_after_the_claim: OtherIdReadFirst in "two-ids-refused" breaks ONE_LIVE_OWNER;
    unconditional_writes_undo_claims: Peers in "claim-first-crash" breaks STALE_OWNERS_CHANGE_NOTHING;
}
