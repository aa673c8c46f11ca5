//! The request units per record, as the documentation states them.

use sqs_once_bench::table::Units;
use sqs_once_bench::units::consumptions;

#[test]
fn every_kind_of_record_consumes_what_its_guarantee_needs() {
    let counted = consumptions().unwrap();
    let counted: Vec<_> = counted.iter().map(|one| (one.record, one.units)).collect();
    let units = |write, read| Units { write, read };
    assert_eq!(
        counted,
        [
            ("new key", units(2.0, 0.0)),
            ("new key, alone in its batch", units(2.0, 0.0)),
            ("new key, recorded after the work", units(1.0, 1.0)),
            ("failed attempt", units(2.0, 0.0)),
            ("duplicate in a batch", units(1.0, 1.0)),
            ("duplicate, the only one among 24 new keys", units(1.0, 1.0)),
            ("duplicate, alone in its batch", units(1.0, 0.0)),
            ("duplicate, cached", units(0.0, 0.0)),
            ("second copy in one batch", units(0.0, 0.0)),
            ("no key, unprotected", units(0.0, 0.0)),
        ]
    );
}
