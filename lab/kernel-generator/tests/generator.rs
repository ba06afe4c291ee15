//! Promises of generated kernels before any of them is compiled.

use std::collections::BTreeSet;

use quipu_kernel_generator::tree::{Block, Expression, Piece};
use quipu_kernel_generator::types::{Scalar, Type};
use quipu_kernel_generator::{batch, kernel, shrink};

#[test]
fn a_seed_always_gives_the_same_kernel_and_another_one_another() {
    let sources: BTreeSet<String> = (0..100)
        .map(|seed| {
            let source = kernel(seed).source();
            assert_eq!(source, kernel(seed).source());
            source
        })
        .collect();
    assert_eq!(sources.len(), 100);
}

#[test]
fn everything_that_the_generator_knows_is_written_sooner_or_later() {
    let all: String = (0..600).map(|seed| kernel(seed).source()).collect();
    for what in [
        "bool", "i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize", "f32",
        "f64",
    ] {
        assert!(
            all.contains(&format!(" as {what})")) || what == "bool",
            "{what}"
        );
        assert!(all.contains(&format!(": {what}")), "{what}");
    }
    for what in [
        "i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize",
    ] {
        for edge in ["MIN", "MAX"] {
            let edge = format!("{what}::{edge}");
            // As a value; there are ranges and patterns that begin and end there, too.
            let is_value = |at: usize| {
                let after = &all[at + edge.len()..];
                !after.starts_with("..") && !after.starts_with(" - ") && !after.starts_with(" =>")
            };
            let mut found = all.match_indices(&edge);
            assert!(found.any(|(at, _)| is_value(at)), "{edge}");
        }
    }
    for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64] {
        let what = scalar.name();
        for edge in ["NAN", "INFINITY", "NEG_INFINITY", "MAX", "MIN_POSITIVE"] {
            let edge = format!("{what}::{edge}");
            assert!(all.contains(&edge), "{edge}");
        }
        let negative_zero = format!("(-{})", scalar.float_literal("0.0"));
        assert!(all.contains(&negative_zero), "{negative_zero}");
        // A number of few bits, which is subnormal: not what is computed.
        let of_bits = format!(" {what}::from_bits(");
        let mut found = all.match_indices(&of_bits);
        let is_subnormal = |at: usize| {
            let number = all[at..].split(['(', ')']).nth(1);
            number.is_some_and(|number| number.parse::<u32>().is_ok_and(|bits| bits < 1 << 20))
        };
        assert!(found.any(|(at, _)| is_subnormal(at)), "{what}");
    }
    for what in [
        "from_bits(",
        " << ",
        " >> ",
        " / ",
        " % ",
        "wrapping_div",
        "wrapping_shl",
        "saturating_sub",
        "rotate_left",
        "mul_high",
        "leading_zeros",
        "mul_add",
        "copysign",
        "round_ties_even",
        "sqrt",
        "clamp",
        "match ",
        "while ",
        "loop {",
        ".rev()",
        ".step_by(",
        ".skip(",
        ".take(",
        ".zip(",
        ".filter(|",
        ".map(|",
        ".fold(",
        ".any(|",
        ".all(|",
        ".sum::<",
        "'l",
        "break '",
        "continue '",
        "return ",
        "let mut ",
        "let (mut",
        "std::mem::swap",
        "struct S",
        "#[device",
        "&mut ",
        "= |",
        "(|",
        ".iter_mut()",
        ".enumerate()",
        ".swap(",
        ".fill(",
        "Atomics<",
        "Atomics<f32>",
        "Atomics<f64>",
        "enum E",
        "::V1 => ",
        "::V0 | ",
        "acc.is_gpu()",
        "acc.has_f64()",
        "acc.is_native()",
        "acc.warp_size()",
        "let xs",
        ": f16",
        ": bf16",
        "cast::<f16>()",
        "cast::<bf16>()",
        "bf16::from_f32(",
        "settled_f16(f16::from_bits(",
        "Accelerator<1>",
        "Accelerator<2>",
        "Accelerator<3>",
        ".rows()",
        "GlobalRef<f32, 2>",
        ", 3>",
        "z0[[",
        "OwnRows<",
        "OwnElements<",
        "SharedWrite<",
        "acc.sync(",
        "sync_block_threads_count",
        "while m",
        "acc.groups(",
        "acc.uniform_elements(",
        " && acc.sync_block_threads_or(",
        "acc.warp_any(",
        "acc.warp_shuffle(",
        "break 'g",
        "continue 'g",
        " { return; }",
        "_w(acc: &impl BlockAccelerator<1>, g",
        "_w(acc, ",
        "OwnBlock<",
        "OwnTile<",
        "OwnBlockTile<",
        "RawMut<",
        "SharedAtomics<",
        ".into_raw()",
        "_o0.write(",
        "a0.load(",
        "#[shared(x0.len())]",
        "u0: Sk",
        "u0: Ek",
        ": &[Sk",
        ": &[Ek",
        ": &[[",
        "OwnElements<Sk",
        "OwnElements<Ek",
        "OwnElements<[",
        "SharedWrite<Sk",
        "SharedWrite<[",
        "..=",
        " @ ",
        ", ..v",
    ] {
        // A functional update and a struct are spelt with names that differ.
        assert!(all.contains(what), "{what}");
    }
}

/// Adds the pieces of every statement and expression of a block to a list.
fn all_pieces<'b>(block: &'b Block, all: &mut Vec<&'b [Piece]>) {
    fn of<'b>(pieces: &'b [Piece], all: &mut Vec<&'b [Piece]>) {
        all.push(pieces);
        for piece in pieces {
            match piece {
                Piece::Text(_) => {}
                Piece::Expression(expression) => of(&expression.pieces, all),
                Piece::Block(block) => all_pieces(block, all),
            }
        }
    }
    for statement in &block.statements {
        of(&statement.pieces, all);
    }
    if let Some(value) = &block.value {
        of(&value.pieces, all);
    }
}

/// True if there are statements in an expression.
fn has_statements(expression: &Expression) -> bool {
    expression.pieces.iter().any(|piece| match piece {
        Piece::Text(_) => false,
        Piece::Expression(inner) => has_statements(inner),
        Piece::Block(_) => true,
    })
}

#[test]
fn a_half_that_is_compared_is_copied_before_statements_that_may_change_it() {
    let is_half = |one: &Expression| matches!(one.of, Type::Scalar(scalar) if scalar.is_half());
    let (mut copied, mut borrowed) = (0, 0);
    // rustc refused two of these.
    for seed in (0..2000).chain([0x9a2, 0x1422]) {
        let kernel = kernel(seed);
        let functions = kernel.functions.iter().map(|function| &function.body);
        let mut all = Vec::new();
        for body in functions.chain([&kernel.body]) {
            all_pieces(body, &mut all);
        }
        for pieces in all {
            let [
                Piece::Text(begin),
                Piece::Expression(left),
                Piece::Text(sign),
                Piece::Expression(right),
                ..,
            ] = pieces
            else {
                continue;
            };
            let sign = sign.trim_start_matches('}').trim();
            if !is_half(left) || !["==", "!=", "<", "<=", ">", ">="].contains(&sign) {
                continue;
            }
            if has_statements(right) {
                assert_eq!(begin, "({", "{seed:#x}: {left:?} {sign} {right:?}");
                copied += 1;
            } else {
                borrowed += 1;
            }
        }
    }
    assert!(copied > 20 && borrowed > 100, "{copied} {borrowed}");
}

#[test]
fn no_kernel_is_endless() {
    // Elements of three dimensions have three indices, in which there may be elements.
    for seed in (0..1000).chain([2_000_224, 2_006_778]) {
        assert!(kernel(seed).source().len() < 100_000, "{seed}");
    }
}

#[test]
fn smaller_kernels_are_smaller_and_not_more_than_asked_for() {
    for seed in 0..20 {
        let whole = kernel(seed);
        let all = shrink::smaller(&whole, 30);
        assert!(!all.is_empty() && all.len() <= 31, "{}", all.len());
        let names: BTreeSet<&str> = all.iter().map(|smaller| smaller.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for smaller in &all {
            let shorter = smaller.source().len() < whole.source().len() + 4;
            assert!(smaller.size() < whole.size() || shorter);
        }
    }
}

#[test]
fn shrinking_comes_to_an_end() {
    let mut left = kernel(7);
    let mut steps = 0;
    while let Some(next) = shrink::smaller(&left, 10).into_iter().next() {
        left = next;
        steps += 1;
        assert!(steps < 1000, "{}", left.source());
    }
}

#[test]
fn a_line_of_a_batch_is_one_of_its_kernel() {
    let kernels: Vec<_> = (0..5).map(kernel).collect();
    let batch = batch(&kernels);
    for (number, line) in batch.source.lines().enumerate() {
        for (at, kernel) in kernels.iter().enumerate() {
            if line.contains(&format!("fn {}(", kernel.name)) {
                assert_eq!(batch.kernel_at(number + 1), Some(at));
            }
        }
    }
    assert_eq!(batch.kernel_at(0), None);
}

/// Or half of them would not be compared in both orders, or none with what one element leaves for
/// the next.
#[test]
fn many_kernels_do_not_depend_on_whose_elements_are() {
    let ordered = (0..1000).filter(|seed| kernel(*seed).is_ordered).count();
    assert!((250..450).contains(&ordered), "{ordered}");
    // Nor can they: what depends on it is not in their source at all.
    for kernel in (0..1000).map(kernel) {
        if !kernel.is_ordered && !kernel.is_block {
            let source = kernel.source();
            assert!(!source.contains("acc.index("), "{source}");
        }
    }
}

/// Adds what barriers are in, from the outside to the inside, of every barrier of a block.
fn around_barriers(
    pieces: &[Piece],
    around: &mut Vec<&'static str>,
    all: &mut Vec<Vec<&'static str>>,
) {
    const WORDS: [&str; 6] = ["for ", "while ", "loop ", "else ", "match ", "if "];
    let mut word = None;
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                all.extend(text.contains(".await").then(|| around.clone()));
                let last = WORDS
                    .into_iter()
                    .filter_map(|one| Some((text.rfind(one)?, one)));
                word = last.max().map(|(_, one)| one).or(word);
            }
            Piece::Expression(inner) => around_barriers(&inner.pieces, around, all),
            Piece::Block(block) => {
                around.extend(word);
                for statement in &block.statements {
                    around_barriers(&statement.pieces, around, all);
                }
                around.truncate(around.len() - usize::from(word.is_some()));
            }
        }
    }
}

#[test]
fn barriers_are_in_loops_and_branches_of_each_kind_and_in_loops_and_branches_of_these() {
    let mut all = Vec::new();
    for kernel in (0..1000).map(kernel) {
        let bodies = kernel.functions.iter().map(|function| &function.body);
        for body in bodies.chain([&kernel.body]) {
            around_barriers(&[Piece::Block(body.clone())], &mut Vec::new(), &mut all);
        }
    }
    for word in ["for ", "while ", "loop ", "else ", "match ", "if "] {
        let inner = all.iter().filter(|around| around.last() == Some(&word));
        assert!(inner.count() >= 10, "{word}");
        let outer = all
            .iter()
            .filter(|around| around.len() > 1 && around[0] == word);
        assert!(outer.count() >= 5, "something in {word}");
    }
    assert!(all.iter().any(|around| around.len() == 3));
}
