//! A thread's elements, several at once: the same as one by one, whatever the extents and wherever
//! the first access out of bounds is.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use quipu_kernel_ir::print::Fault;
use quipu_kernel_ir::{
    BinaryOperation as B, Dialect, ElementOrder, FunctionBuilder, IndexWidth, Module,
    ModuleBuilder, Options, Place, Scalar, Space, Type,
};
use quipu_kernel_testing::{Argument, C99Program, Division, Launch, corpus};

fn u32_type() -> Type {
    Scalar::U32.into()
}

/// `y[i] = x[i + shift] + z[i]`.
fn shifted() -> Module {
    let mut f = FunctionBuilder::new("shifted");
    let shift = f.uniform("shift", Scalar::Index.into());
    let x = f.buffer("x", u32_type(), false);
    let z = f.buffer("z", u32_type(), false);
    let y = f.buffer("y", u32_type(), true);
    let length = f.length(y);
    f.elements(&["i"], &[length], |f, _, position| {
        let i = position[0];
        let there = f.binary(B::Add, i, shift);
        let x = f.load(Place::element(x, there), u32_type());
        let z = f.load(Place::element(z, i), u32_type());
        let sum = f.binary(B::Add, x, z);
        f.store(Place::element_unchecked(y, i), sum);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Rows of one element: each is the sum of as many elements of `x` as `width` says, from `shift`
/// further on.
fn windows() -> Module {
    let mut f = FunctionBuilder::new("windows");
    let shift = f.uniform("shift", Scalar::Index.into());
    let width = f.uniform("width", Scalar::Index.into());
    let x = f.buffer("x", u32_type(), false);
    let y = f.buffer("y", u32_type(), true);
    let length = f.length(y);
    f.elements(&["i"], &[length], |f, _, position| {
        let start = f.binary(B::Add, position[0], shift);
        let end = f.binary(B::Add, start, width);
        let window = f.slice(
            Place::slice(x),
            Some((start, end)),
            u32_type(),
            Space::Global,
            false,
        );
        let nothing = f.literal(Scalar::U32, 0);
        let sum = f.local(Some("sum"), nothing);
        let (zero, length) = (f.index_literal(0), f.length(window));
        f.for_range("k", zero, length, |f, _, k| {
            let element = f.load(Place::element(window, k), u32_type());
            let before = f.load_local(sum);
            let after = f.binary(B::Add, before, element);
            f.store(Place::local(sum), after);
        });
        let sum = f.load_local(sum);
        f.store(Place::element_unchecked(y, position[0]), sum);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// A kernel as C99, several elements at once and one by one: with indices of 64 bits.
struct Both([C99Program; 2]);

impl Both {
    #[track_caller]
    fn of(module: &Module) -> Self {
        Self([IndexWidth::Bits32, IndexWidth::Bits64].map(|width| {
            let options = Options {
                elements: ElementOrder::Strided,
                ..Options::new(Dialect::C99, width)
            };
            let printed = module.print(Dialect::C99, &options).unwrap();
            let several = printed.source.contains("* 4");
            assert_eq!(several, width == IndexWidth::Bits32, "{}", printed.source);
            C99Program::compile(&printed).unwrap()
        }))
    }

    /// The values that they write to an argument, and the first fault: both the same.
    #[track_caller]
    fn run(&self, launch: &Launch, written: usize) -> (Vec<u32>, Option<Fault>) {
        let [several, one] = self.0.each_ref().map(|program| {
            let mut launch = launch.clone();
            let fault = program.run(&mut launch).unwrap();
            (launch.elements::<u32>(written), fault)
        });
        assert_eq!(several.0, one.0);
        let told = |fault: &Option<Fault>| fault.as_ref().map(ToString::to_string);
        assert_eq!(told(&several.1), told(&one.1));
        several
    }
}

const DIVISIONS: [(u64, u64); 4] = [(1, 1), (1, 3), (2, 2), (5, 4)];

#[test]
fn shifted_reads_are_the_same_and_so_are_their_faults() {
    let both = Both::of(&shifted());
    for (blocks, threads) in DIVISIONS {
        for length in [0_usize, 1, 7, 12, 13, 41] {
            for (shift, x_length, z_length) in [
                (0, length, length),
                (2, length + 2, length),
                (2, length + 1, length),
                (0, length, length.saturating_sub(1)),
                ((1 << 31) - 1, length, length),
            ] {
                let x: Vec<u32> = (0..x_length as u32).map(|i| 3 * i).collect();
                let z: Vec<u32> = (0..z_length as u32).map(|i| 1000 * i).collect();
                let launch = Launch::new(
                    Division::new([blocks], [threads], [1]),
                    [
                        Argument::index(shift as u64),
                        Argument::buffer(&x),
                        Argument::buffer(&z),
                        Argument::buffer(&vec![9_u32; length]),
                    ],
                );
                let (found, fault) = both.run(&launch, 3);
                let at = |from: &[u32], i: usize| from.get(i).copied().unwrap_or(0);
                let expected: Vec<u32> =
                    (0..length).map(|i| at(&x, i + shift) + at(&z, i)).collect();
                assert_eq!(found, expected);
                let fits = length == 0 || (x_length >= length + shift && z_length >= length);
                assert_eq!(fault.is_none(), fits, "{fault:?}");
            }
        }
    }
}

#[test]
fn windows_are_the_same_and_so_are_their_faults() {
    let both = Both::of(&windows());
    for (blocks, threads) in DIVISIONS {
        for length in [0_usize, 1, 12, 13, 41] {
            for (shift, width, missing) in [(0, 1, 0), (3, 1, 0), (1, 4, 0), (0, 0, 0), (2, 3, 1)] {
                let there = (length + shift + width - usize::from(length > 0 && width > 0))
                    .saturating_sub(missing);
                let x: Vec<u32> = (0..there as u32).map(|i| i * i).collect();
                let launch = Launch::new(
                    Division::new([blocks], [threads], [1]),
                    [
                        Argument::index(shift as u64),
                        Argument::index(width as u64),
                        Argument::buffer(&x),
                        Argument::buffer(&vec![9_u32; length]),
                    ],
                );
                let (found, fault) = both.run(&launch, 3);
                let expected: Vec<u32> = (0..length)
                    .map(|i| x.get(i + shift..i + shift + width))
                    .map(|window| window.map_or(0, |window| window.iter().sum()))
                    .collect();
                assert_eq!(found, expected);
                assert_eq!(fault.is_none(), missing == 0 || length == 0, "{fault:?}");
            }
        }
    }
}

#[test]
fn what_a_check_before_answers_for_has_no_checks_inside() {
    let options = Options::new(Dialect::Cuda, IndexWidth::Bits32);
    for module in [shifted(), corpus::saxpy()] {
        let source = module.print(Dialect::Cuda, &options).unwrap().source;
        let begin = source.find("#pragma unroll").expect("several at once");
        let end = begin + source[begin..].find("}\n").expect("its end");
        assert!(!source[begin..end].contains("quipu_in"), "{source}");
        assert!(source[end..].contains("quipu_in"), "{source}");
    }
}
