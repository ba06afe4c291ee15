//! The corpus is sound, and wrong results are told from right ones.

use super::case::{Case, Given, Kind, Size, float, floats, ints, out};
use super::{difference, entries, verify};
use crate::harness::{Options, Report, Scale, Session};
use crate::subject::Subject;
use std::collections::BTreeSet;

struct Nothing;

impl Subject for Nothing {
    fn device(&self) -> String {
        "none".into()
    }
}

#[test]
fn every_case_has_a_name_of_its_own_and_launches_a_kernel_that_there_is_on_memory_that_there_is() {
    let names: BTreeSet<&str> = entries().map(|entry| entry.name).collect();
    assert_eq!(names.len(), entries().count());
    assert!(names.len() >= 60);
    for entry in entries() {
        let case = (entry.make)(Size(Scale::Tiny));
        assert!(case.results().count() > 0, "{}", entry.name);
        for launch in &case.launches {
            let head = format!("kernel void {}(", launch.kernel);
            assert!(case.source.contains(&head), "{}: {head}", entry.name);
            assert_eq!(launch.global.len(), launch.local.len(), "{}", entry.name);
            for (global, local) in launch.global.iter().zip(&launch.local) {
                assert!(
                    *global > 0 && global.is_multiple_of(*local),
                    "{}: {global} by {local}",
                    entry.name
                );
            }
            for argument in &launch.arguments {
                match argument {
                    Given::At(at) => assert!(*at < case.memory.len(), "{}", entry.name),
                    Given::Value(_) | Given::Local(_) => {}
                    other => panic!("{}: {other:?} is the case's", entry.name),
                }
            }
        }
    }
}

/// A case of four floats and two whole numbers, as bytes.
fn case() -> Case {
    let given = vec![float(1.0), out(Kind::Float, 4), out(Kind::Int, 2)];
    Case::one("", "nothing", &[1], &[1], given).within(0.01)
}

fn results(numbers: [f32; 4], whole: [i32; 2]) -> Vec<u8> {
    [floats(numbers).bytes, ints(whole).bytes].concat()
}

#[test]
fn results_may_differ_by_as_much_as_the_case_allows_and_no_more() {
    let right = results([1.0, 2.0, 3.0, f32::NAN], [7, 8]);
    let near = results([1.005, 2.01, 3.0, f32::NAN], [7, 8]);
    assert_eq!(difference(&case(), &right, &near), None);
    let far = results([1.0, 2.0, 3.1, f32::NAN], [7, 8]);
    let found = difference(&case(), &right, &far).expect("0.1 is more than 3 in 100");
    assert!(found.contains("1 of 4"), "{found}");
    assert_eq!(difference(&case().but_for(0.25), &right, &far), None);
    for other in [
        results([1.0, 2.0, 3.0, 4.0], [7, 8]),
        results([1.0, 2.0, 3.0, f32::NAN], [7, 9]),
    ] {
        assert!(difference(&case(), &right, &other).is_some());
    }
}

#[test]
fn ours_is_wrong_where_two_others_agree_on_something_else() {
    let options = Options::default();
    let session = Session::new("opencl-kernels", &Nothing, &options);
    let right = results([1.0; 4], [7, 8]);
    let wrong = results([2.0; 4], [7, 8]);
    let mut report = Report::new("opencl-kernels");
    let mut judge = |ours: &Vec<u8>, second: &Vec<u8>, third: &Vec<u8>| {
        let all = [("Quipu", ours), ("Intel", second), ("PoCL", third)];
        let all = all.map(|(name, result)| (name, result.clone()));
        verify(&session, &mut report, "a case", &case(), &all)
    };
    assert!(judge(&wrong, &right, &right).is_err());
    assert!(judge(&right, &right, &right).is_ok());
    assert!(judge(&right, &right, &wrong).is_ok());
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    assert!(
        report.notes[0].contains("Quipu and PoCL"),
        "{:?}",
        report.notes
    );
}
