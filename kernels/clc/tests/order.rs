//! A work-item's own reads and writes, one after the other, as its text has them, where neighbours'
//! are a few numbers apart.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Argument, Grid, Kernel, Output, Program};
use std::mem::MaybeUninit;
use std::sync::Arc;
use support::program;

/// Work-items.
const ITEMS: usize = 64;

/// The work of a work-item in its numbers, of which each is one of 32 bits. The last argument of a
/// kernel, `n`, is 1.
type Work = fn(&mut [i32]);

const STRUCTURE: &str = "typedef struct { int head; int item[3]; } Own;";

/// Kernels, how many numbers each work-item has of its own, and what it does.
const KERNELS: [(&str, usize, &str, Work); 18] = [
    (
        "read_back",
        2,
        "int s = a[2*i]; a[2*i + n] = 9; a[2*i] = s + a[2*i + 1];",
        |a| {
            a[1] = 9;
            a[0] += 9;
        },
    ),
    (
        "overwritten",
        2,
        "a[2*i] = 1; a[2*i + n - 1] = 9; a[2*i + 1] = 5;",
        |a| {
            a[0] = 9;
            a[1] = 5;
        },
    ),
    (
        "member",
        4,
        "global Own *s = (global Own *)a + i; int h = s->head; s->item[h % 3] = 9; \
         s->head = h + s->item[0] + 3 * s->item[1] + 5 * s->item[2];",
        |a| {
            let h = a[0];
            a[1 + (h % 3) as usize] = 9;
            a[0] = h + a[1] + 3 * a[2] + 5 * a[3];
        },
    ),
    (
        "private_member",
        4,
        "Own s = ((global Own *)a)[i]; int h = s.head; s.item[h % 3] = 9; \
         s.head = h + s.item[0] + 3 * s.item[1] + 5 * s.item[2]; ((global Own *)a)[i] = s;",
        |a| {
            let h = a[0];
            a[1 + (h % 3) as usize] = 9;
            a[0] = h + a[1] + 3 * a[2] + 5 * a[3];
        },
    ),
    (
        "local_member",
        4,
        "local Own l[64]; l[get_local_id(0)] = ((global Own *)a)[i]; local Own *s = l + get_local_id(0); \
         int h = s->head; s->item[h % 3] = 9; \
         s->head = h + s->item[0] + 3 * s->item[1] + 5 * s->item[2]; ((global Own *)a)[i] = *s;",
        |a| {
            let h = a[0];
            a[1 + (h % 3) as usize] = 9;
            a[0] = h + a[1] + 3 * a[2] + 5 * a[3];
        },
    ),
    (
        "turns",
        4,
        "for (int j = 0; j < 3; j++) { int h = a[4*i]; a[4*i + 1 + ((h + j) & 1)] += j + 1; \
         a[4*i] = h + a[4*i + 1] + a[4*i + 2]; }",
        |a| {
            for j in 0..3 {
                let h = a[0];
                a[1 + ((h + j) & 1) as usize] += j + 1;
                a[0] = h + a[1] + a[2];
            }
        },
    ),
    (
        "turns_of_each",
        4,
        "for (int j = 0; j <= (a[4*i + 3] & 3); j++) { int h = a[4*i]; a[4*i + 1 + ((h + j) & 1)] += j + 1; \
         a[4*i] = h + a[4*i + 1] + a[4*i + 2]; }",
        |a| {
            for j in 0..=(a[3] & 3) {
                let h = a[0];
                a[1 + ((h + j) & 1) as usize] += j + 1;
                a[0] = h + a[1] + a[2];
            }
        },
    ),
    (
        "by_a_member",
        4,
        "global int4 *v = (global int4 *)a; global int *y = &((global int *)(v + i))[0]; \
         int s = v[i].x + v[i].z; y[n] = s; a[4*i + 3] = 2*s + v[i].y;",
        |a| {
            let s = a[0] + a[2];
            a[1] = s;
            a[3] = 3 * s;
        },
    ),
    (
        "in_place",
        2,
        "b[2*i] = a[2*i] + a[2*i + 1]; b[2*i + 1] = a[2*i] - a[2*i + 1];",
        |a| {
            a[0] += a[1];
            a[1] = a[0] - a[1];
        },
    ),
    (
        "in_place_by_a_function",
        2,
        "times(b + 2*i, a + 2*i);",
        |a| {
            let (x, y) = (a[0], a[1]);
            a[0] = x * x - y * y;
            a[1] = 2 * a[0] * y;
        },
    ),
    (
        "bytes_of_a_union",
        2,
        "union { uint w[2]; uchar b[8]; } u; int h = a[2*i]; u.w[0] = h; u.b[h & 3] = 77; \
         u.w[1] = a[2*i + 1]; a[2*i] = u.w[0]; a[2*i + 1] = u.w[1];",
        |a| {
            let shift = 8 * (a[0] & 3);
            a[0] = (a[0] & !(0xff << shift)) | (77 << shift);
        },
    ),
    (
        "bytes",
        4,
        "global uchar *c = (global uchar *)b; int h = a[4*i]; c[16*i + 4 + (h & 3)] = 7; \
         a[4*i] = h + a[4*i + 1] + a[4*i + 2];",
        |a| {
            let shift = 8 * (a[0] & 3);
            a[1] = (a[1] & !(0xff << shift)) | (7 << shift);
            a[0] = a[0].wrapping_add(a[1]).wrapping_add(a[2]);
        },
    ),
    (
        "shorts",
        4,
        "global short *c = (global short *)b; int h = a[4*i]; c[8*i + 2 + (h & 1)] = 7; \
         a[4*i] = h + a[4*i + 1] + a[4*i + 2];",
        |a| {
            let shift = 16 * (a[0] & 1);
            a[1] = (a[1] & !(0xffff << shift)) | (7 << shift);
            a[0] = a[0].wrapping_add(a[1]).wrapping_add(a[2]);
        },
    ),
    (
        "vectors",
        8,
        "global int4 *v = (global int4 *)b; int h = a[8*i] & 7; int4 x = v[2*i]; a[8*i + h] = 9; \
         int4 y = v[2*i]; v[2*i + 1] = x + y;",
        |a| {
            let x: [i32; 4] = std::array::from_fn(|k| a[k]);
            a[(x[0] & 7) as usize] = 9;
            for k in 0..4 {
                a[4 + k] = x[k] + a[k];
            }
        },
    ),
    (
        "guarded",
        4,
        "if (i < 8*n + 40) { int h = a[4*i]; b[4*i + 1 + (h & 1)] = 99; a[4*i + 3] = h + 3 * a[4*i + 1] + 5 * a[4*i + 2]; } \
         else { int h = a[4*i]; b[4*i + 1 + (h & 1)] = 99; a[4*i + 3] = h + 3 * a[4*i + 1] + 5 * a[4*i + 2]; }",
        |a| {
            a[1 + (a[0] & 1) as usize] = 99;
            a[3] = a[0] + 3 * a[1] + 5 * a[2];
        },
    ),
    (
        "in_a_branch",
        4,
        "int h = a[4*i]; if (h & 1) b[4*i + n] = 9; a[4*i + 3] = h + 3 * a[4*i + 1] + 5 * a[4*i + 2];",
        |a| {
            if a[0] & 1 != 0 {
                a[1] = 9;
            }
            a[3] = a[0] + 3 * a[1] + 5 * a[2];
        },
    ),
    (
        "chosen",
        4,
        "int h = a[4*i]; global int *p = h & 1 ? a + 4*i + 1 : b + 4*i + 2; *p = 9; \
         a[4*i + 3] = h + 3 * a[4*i + 1] + 5 * a[4*i + 2];",
        |a| {
            a[if a[0] & 1 != 0 { 1 } else { 2 }] = 9;
            a[3] = a[0] + 3 * a[1] + 5 * a[2];
        },
    ),
    (
        "numbers_of_64_bits",
        4,
        "global long *p = (global long *)a; long s = p[2*i]; p[2*i + n] = 9; p[2*i] = s + p[2*i + 1];",
        |a| {
            (a[2], a[3]) = (9, 0);
            let sum = (i64::from(a[1]) << 32 | i64::from(a[0].cast_unsigned())) + 9;
            (a[0], a[1]) = (sum as i32, (sum >> 32) as i32);
        },
    ),
];

/// The kernels, and each once more with its second pointer so many numbers behind its argument.
fn text() -> String {
    let times = "void times(global int *out, global const int *in) {
        out[0] = in[0] * in[0] - in[1] * in[1]; out[1] = 2 * in[0] * in[1]; }";
    let kernels = KERNELS.iter().map(|(name, _, body, _)| {
        format!(
            "kernel void {name}(global int *a, global int *b, int n) {{ int i = get_global_id(0); {body} }}
            kernel void {name}_behind(global int *a, global int *b, int n, int behind) {{
                b += behind; int i = get_global_id(0); {body} }}"
        )
    });
    format!(
        "{STRUCTURE}\n{times}\n{}",
        kernels.collect::<Vec<_>>().join("\n")
    )
}

/// How the memory of the two pointers lies.
#[derive(Clone, Copy, Debug)]
enum Memory {
    /// It is the same.
    Same,
    /// The memory is the same, and the launch does not know its size.
    OfUnknownSize,
    /// That of the second one begins before that of the first one, and goes on into it.
    Overlapping,
    /// They share none.
    Apart,
    /// They share none, and the launch does not know that.
    ApartUnknown,
}

/// Numbers before the first pointer's.
const BEHIND: usize = 24;

/// The numbers of both pointers when the kernel has run.
fn ran(kernel: &Kernel, local: u32, numbers: &[i32], memory: Memory) -> [Vec<i32>; 2] {
    let grid = Grid::new(1, [ITEMS as u64, 1, 1], [local, 1, 1]);
    let mut all = vec![0; BEHIND];
    all.extend_from_slice(numbers);
    let mut others: Vec<i32> = numbers.iter().map(|number| number * 3 % 59).collect();
    let start = all.as_mut_ptr();
    let first = start.wrapping_add(BEHIND).cast();
    let other = others.as_mut_ptr().cast();
    let bytes = size_of_val(numbers);
    let [a, b] = match memory {
        Memory::Same => [Argument::Memory(first, bytes); 2],
        Memory::OfUnknownSize => [Argument::Address(first); 2],
        Memory::Overlapping => [
            Argument::Memory(first, bytes),
            Argument::Memory(start.cast(), 4 * BEHIND + bytes),
        ],
        Memory::Apart => [
            Argument::Memory(first, bytes),
            Argument::Memory(other, bytes),
        ],
        Memory::ApartUnknown => [Argument::Address(first), Argument::Address(other)],
    };
    let number = |number: i32| number.to_ne_bytes().map(MaybeUninit::new);
    let (one, behind) = (number(1), number(BEHIND as i32));
    let mut arguments = vec![a, b, Argument::Value(&one)];
    if let Memory::Overlapping = memory {
        arguments.push(Argument::Value(&behind));
    }
    // SAFETY: the kernels stay within the numbers, which nobody else has.
    unsafe { kernel.run(&grid, &arguments, 0..grid.groups().iter().product()) }.unwrap();
    [all.split_off(BEHIND), others]
}

#[test]
fn a_work_item_reads_what_it_wrote() {
    let Some(program) = program(&text()) else {
        return;
    };
    let mut faults = Vec::new();
    for (name, own, _, work) in KERNELS {
        check(&program, name, own, work, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn check(program: &Program, name: &str, own: usize, work: Work, faults: &mut Vec<String>) {
    let first: Vec<i32> = (0..ITEMS * own).map(|at| at as i32 * 5 % 61).collect();
    let mut shared = first.clone();
    shared.chunks_mut(own).for_each(work);
    let compiled = |name: &str, sizes: &[u32]| {
        let any = Arc::new(program.compile_for_any_size(name).unwrap());
        let all = sizes.iter().flat_map(|local| {
            let sized = program.compile(name, [*local, 1, 1]).unwrap();
            [
                (*local, any.clone(), "any size"),
                (*local, sized, "this size"),
            ]
        });
        all.collect::<Vec<_>>()
    };
    let kernels = compiled(name, &[1, 8, 16, 64]);
    // A work-item by itself, which is right where both are the same.
    let [of_one, of_other] = ran(&kernels[1].1, 1, &first, Memory::ApartUnknown);
    let behind = compiled(&format!("{name}_behind"), &[64]);
    for (kernels, memory, right) in [
        (&kernels, Memory::Same, [&shared[..], &[]]),
        (&kernels, Memory::OfUnknownSize, [&shared[..], &[]]),
        (&behind, Memory::Overlapping, [&shared[..], &[]]),
        (&kernels, Memory::Apart, [&of_one[..], &of_other]),
        (&kernels, Memory::ApartUnknown, [&of_one[..], &of_other]),
    ] {
        for (local, kernel, of) in kernels {
            let found = ran(kernel, *local, &first, memory);
            for (found, right) in found.iter().zip(right) {
                let at = (0..right.len()).find(|at| found[*at] != right[*at]);
                faults.extend(at.map(|at| {
                    let (found, right) = (found[at], right[at]);
                    format!(
                        "{name}, {memory:?}, groups of {local}, for {of}: number {at} is {found}, not {right}"
                    )
                }));
            }
        }
    }
}

/// A launch whose arguments share no memory runs code of its own.
#[test]
fn memory_that_is_apart_needs_no_order() {
    let text =
        "kernel void product(global const float *a, global const float *b, global float *c) {
        int i = get_global_id(0);
        c[2*i] = a[2*i] * b[2*i] - a[2*i + 1] * b[2*i + 1];
        c[2*i + 1] = a[2*i] * b[2*i + 1] + a[2*i + 1] * b[2*i];
    }";
    let Some(program) = program(text) else {
        return;
    };
    let explained = program.emit("product", Some([64, 1, 1]), Output::Explanation);
    let explained = String::from_utf8(explained.unwrap()).unwrap();
    let apart = "these groups, in launches whose arguments share no memory";
    assert!(explained.contains(apart), "{explained}");
}
