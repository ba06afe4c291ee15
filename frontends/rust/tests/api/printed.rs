//! A program's own kernels, shown by name.

#![allow(dead_code, reason = "they are shown, and not launched")]

use quipu::kernel::print::Kernels;
use quipu::prelude::*;

#[kernel]
fn add<T: std::ops::Add<Output = T>>(_acc: &impl Accelerator<1>, by: T, mut y: OwnElements<T>) {
    for (_, y) in y.each() {
        *y = *y + by;
    }
}

#[kernel]
fn turned(_acc: &impl Accelerator<2>, x: GlobalRef<f32, 2>, mut y: OwnElements<f32, 2>) {
    let rows = x.extent()[0];
    for (i, y) in y.each() {
        *y = x[[i % rows, i / rows]];
    }
}

fn kernels() -> Kernels {
    Kernels::new()
        .with::<add<f32>, _>()
        .with::<add<u64>, _>()
        .with::<turned, _>()
}

#[test]
fn kernels_are_listed_with_their_types() {
    let none: [&str; 0] = [];
    let listed = kernels().command(none).unwrap();
    assert_eq!(listed, kernels().command(["list"]).unwrap());
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("add     ") && lines[0].ends_with("add<f32>"));
    assert!(lines[2].starts_with("turned  ") && lines[2].ends_with("printed::turned"));
}

#[test]
fn a_kernel_is_printed_by_its_name_or_type() {
    let print = |arguments: &[&str]| {
        let arguments = ["print"].iter().chain(arguments).copied();
        kernels().command(arguments).unwrap()
    };
    let plain = print(&["turned"]);
    assert!(plain.contains("int32_t turned(") && !plain.contains("#line"));
    let other = print(&[
        "turned",
        "--dialect",
        "cuda",
        "--lines",
        "--index-width",
        "64",
    ]);
    assert!(other.contains("__global__") && other.contains("#line"));
    assert_ne!(other, print(&["turned", "--dialect", "cuda", "--lines"]));
    let listed = kernels().command(["list"]).unwrap();
    let name = listed
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap();
    let typed = print(&[name, "--dialect", "opencl"]);
    assert!(
        typed.contains("__kernel void add(") && typed.contains("ulong by"),
        "{typed}"
    );
}

#[test]
fn what_there_is_not_is_said_with_what_there_is() {
    for (arguments, words) in [
        (
            &["show"][..],
            "'show' is no command; use list, or print NAME",
        ),
        (
            &["print"],
            "a kernel's name is missing; use list, or print NAME",
        ),
        (
            &["print", "sub"],
            "no kernel named 'sub'; the names are: add, add, turned",
        ),
        (
            &["print", "add"],
            "several kernels named 'add'; use one of: ",
        ),
        (
            &["print", "turned", "--dialect", "pascal"],
            "'--dialect pascal' is no option",
        ),
        (
            &["print", "turned", "--dialect"],
            "'--dialect' is no option",
        ),
        (
            &["print", "turned", "--index-width", "16"],
            "'--index-width 16' is no option",
        ),
    ] {
        let error = kernels().command(arguments.iter().copied()).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}
