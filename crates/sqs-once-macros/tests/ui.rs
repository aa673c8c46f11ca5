//! What the attribute accepts, and what it says about what it does not.

#[test]
fn every_way_to_write_a_handler_compiles_and_runs() {
    trybuild::TestCases::new().pass("tests/pass/*.rs");
}

#[test]
fn every_mistake_is_explained_where_it_stands() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
