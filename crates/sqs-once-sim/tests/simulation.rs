//! Whole consumers under simulated trouble.

use sqs_once_sim::simulation::{Options, replay, run};

#[test]
fn a_seed_is_one_run() {
    let options = Options::default();
    let timelines: Vec<_> = (0..50)
        .map(|seed| replay(seed, &options).timeline)
        .collect();
    let elsewhere = std::thread::spawn(move || {
        // In another order, with other schedules before.
        let seeds = (0..50).rev();
        seeds
            .map(|seed| replay(seed, &options).timeline)
            .collect::<Vec<_>>()
    });
    let mut elsewhere = elsewhere.join().expect("it ends");
    elsewhere.reverse();
    assert_eq!(timelines, elsewhere);
    assert!(timelines.iter().all(|timeline| timeline.len() > 3));
}

#[test]
fn every_property_holds() {
    let options = Options::default();
    for seed in 0..300 {
        let told = run(seed, &options);
        assert!(told.violation.is_none(), "{}", replay(seed, &options));
    }
}
