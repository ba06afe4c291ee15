//! A work-item's own reads and writes, one after the other, as its text has them, where neighbours'
//! are a few numbers apart.

mod support;

use quipu_clc::{Argument, Grid, Kernel, Program};
use std::mem::MaybeUninit;
use support::program;

/// Work-items, and the numbers that each has of its own.
const ITEMS: usize = 64;
const OWN: usize = 8;

/// The work of a work-item in its numbers, of which each is one of 32 bits. The last argument of a
/// kernel, `n`, is 1.
type Work = fn(&mut [i32]);

const STRUCTURE: &str = "typedef struct { int head; int item[7]; } Own;";

/// Kernels, and what each work-item does.
const KERNELS: [(&str, &str, Work); 18] = [
    (
        "read_back",
        "int s = a[8*i]; a[8*i + n] = 9; a[8*i] = s + a[8*i + 1];",
        |a| {
            a[1] = 9;
            a[0] += 9;
        },
    ),
    (
        "overwritten",
        "a[8*i] = 1; a[8*i + n - 1] = 9; a[8*i + 1] = 5;",
        |a| {
            a[0] = 9;
            a[1] = 5;
        },
    ),
    (
        "member",
        "global Own *s = (global Own *)a + i; int h = s->head; s->item[h & 3] = 9; \
         s->head = h + s->item[0] + 3 * s->item[1] + 5 * s->item[2];",
        |a| {
            let h = a[0];
            a[1 + (h & 3) as usize] = 9;
            a[0] = h + a[1] + 3 * a[2] + 5 * a[3];
        },
    ),
    (
        "private_member",
        "Own s = ((global Own *)a)[i]; int h = s.head; s.item[h & 3] = 9; \
         s.head = h + s.item[0] + 3 * s.item[1] + 5 * s.item[2]; ((global Own *)a)[i] = s;",
        |a| {
            let h = a[0];
            a[1 + (h & 3) as usize] = 9;
            a[0] = h + a[1] + 3 * a[2] + 5 * a[3];
        },
    ),
    (
        "local_member",
        "local Own l[64]; l[get_local_id(0)] = ((global Own *)a)[i]; local Own *s = l + get_local_id(0); \
         int h = s->head; s->item[h & 3] = 9; \
         s->head = h + s->item[0] + 3 * s->item[1] + 5 * s->item[2]; ((global Own *)a)[i] = *s;",
        |a| {
            let h = a[0];
            a[1 + (h & 3) as usize] = 9;
            a[0] = h + a[1] + 3 * a[2] + 5 * a[3];
        },
    ),
    (
        "turns",
        "for (int j = 0; j < 3; j++) { int h = a[8*i]; a[8*i + 1 + ((h + j) & 3)] += j + 1; \
         a[8*i] = h + a[8*i + 1] + a[8*i + 2]; }",
        |a| {
            for j in 0..3 {
                let h = a[0];
                a[1 + ((h + j) & 3) as usize] += j + 1;
                a[0] = h + a[1] + a[2];
            }
        },
    ),
    (
        "turns_of_each",
        "for (int j = 0; j <= (i & 3); j++) { int h = a[8*i]; a[8*i + 1 + ((h + j) & 3)] += j + 1; \
         a[8*i] = h + a[8*i + 1] + a[8*i + 2]; }",
        |a| {
            for j in 0..=(a[7] & 3) {
                let h = a[0];
                a[1 + ((h + j) & 3) as usize] += j + 1;
                a[0] = h + a[1] + a[2];
            }
        },
    ),
    (
        "by_a_member",
        "global int4 *v = (global int4 *)a; global int *y = &((global int *)(v + 2*i))[0]; \
         int s = v[2*i].x + v[2*i].z; y[n] = s; a[8*i + 3] = 2*s + v[2*i].y;",
        |a| {
            let s = a[0] + a[2];
            a[1] = s;
            a[3] = 3 * s;
        },
    ),
    (
        "in_place",
        "b[8*i] = a[8*i] + a[8*i + 1]; b[8*i + 1] = a[8*i] - a[8*i + 1];",
        |a| {
            a[0] += a[1];
            a[1] = a[0] - a[1];
        },
    ),
    ("in_place_by_a_function", "times(b + 8*i, a + 8*i);", |a| {
        let (x, y) = (a[0], a[1]);
        a[0] = x * x - y * y;
        a[1] = 2 * a[0] * y;
    }),
    (
        "bytes_of_a_union",
        "union { uint w[2]; uchar b[8]; } u; u.w[0] = a[8*i]; u.w[1] = a[8*i + 1]; \
         int h = u.w[0]; u.b[h & 7] = 77; a[8*i] = u.w[0]; a[8*i + 1] = u.w[1];",
        |a| {
            let h = a[0] & 7;
            let word = &mut a[(h / 4) as usize];
            let shift = 8 * (h % 4);
            *word = (*word & !(0xff << shift)) | (77 << shift);
        },
    ),
    (
        "bytes",
        "global uchar *c = (global uchar *)b; int h = a[8*i]; c[32*i + 4 + (h & 3)] = 7; \
         a[8*i] = h + a[8*i + 1] + a[8*i + 2];",
        |a| {
            let shift = 8 * (a[0] & 3);
            a[1] = (a[1] & !(0xff << shift)) | (7 << shift);
            a[0] = a[0].wrapping_add(a[1]).wrapping_add(a[2]);
        },
    ),
    (
        "shorts",
        "global short *c = (global short *)b; int h = a[8*i]; c[16*i + 2 + (h & 1)] = 7; \
         a[8*i] = h + a[8*i + 1] + a[8*i + 2];",
        |a| {
            let shift = 16 * (a[0] & 1);
            a[1] = (a[1] & !(0xffff << shift)) | (7 << shift);
            a[0] = a[0].wrapping_add(a[1]).wrapping_add(a[2]);
        },
    ),
    (
        "vectors",
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
        "if (i < 8*n + 40) { int h = a[8*i]; b[8*i + 1 + (h & 1)] = 99; a[8*i + 3] = h + 3 * a[8*i + 1] + 5 * a[8*i + 2]; } \
         else { int h = a[8*i]; b[8*i + 1 + (h & 1)] = 99; a[8*i + 3] = h + 3 * a[8*i + 1] + 5 * a[8*i + 2]; }",
        |a| {
            a[1 + (a[0] & 1) as usize] = 99;
            a[3] = a[0] + 3 * a[1] + 5 * a[2];
        },
    ),
    (
        "in_a_branch",
        "int h = a[8*i]; if (h & 1) b[8*i + n] = 9; a[8*i + 3] = h + 3 * a[8*i + 1] + 5 * a[8*i + 2];",
        |a| {
            if a[0] & 1 != 0 {
                a[1] = 9;
            }
            a[3] = a[0] + 3 * a[1] + 5 * a[2];
        },
    ),
    (
        "chosen",
        "int h = a[8*i]; global int *p = h & 1 ? a + 8*i + 1 : b + 8*i + 2; *p = 9; \
         a[8*i + 3] = h + 3 * a[8*i + 1] + 5 * a[8*i + 2];",
        |a| {
            a[if a[0] & 1 != 0 { 1 } else { 2 }] = 9;
            a[3] = a[0] + 3 * a[1] + 5 * a[2];
        },
    ),
    (
        "numbers_of_64_bits",
        "global long *p = (global long *)a; long s = p[4*i]; p[4*i + n] = 9; p[4*i] = s + p[4*i + 1];",
        |a| {
            (a[2], a[3]) = (9, 0);
            let sum = (i64::from(a[1]) << 32 | i64::from(a[0].cast_unsigned())) + 9;
            (a[0], a[1]) = (sum as i32, (sum >> 32) as i32);
        },
    ),
];

fn text() -> String {
    let times = "void times(global int *out, global const int *in) {
        out[0] = in[0] * in[0] - in[1] * in[1]; out[1] = 2 * in[0] * in[1]; }";
    let kernels = KERNELS.iter().map(|(name, body, _)| {
        format!("kernel void {name}(global int *a, global int *b, int n) {{ int i = get_global_id(0); {body} }}")
    });
    format!(
        "{STRUCTURE}\n{times}\n{}",
        kernels.collect::<Vec<_>>().join("\n")
    )
}

/// Both pointers are to one buffer.
fn ran(kernel: &Kernel, local: u32, numbers: &[i32]) -> Vec<i32> {
    let mut numbers = numbers.to_vec();
    let grid = Grid::new(1, [ITEMS as u64, 1, 1], [local, 1, 1]);
    let memory = || Argument::Memory(numbers.as_ptr().cast_mut().cast());
    let one = 1_i32.to_ne_bytes().map(MaybeUninit::new);
    let arguments = [memory(), memory(), Argument::Value(&one)];
    // SAFETY: the kernels stay within the numbers, which nobody else has.
    unsafe { kernel.run(&grid, &arguments, 0..grid.groups().iter().product()) }.unwrap();
    std::mem::take(&mut numbers)
}

#[test]
fn a_work_item_reads_what_it_wrote() {
    let Some(program) = program(&text()) else {
        return;
    };
    let first: Vec<i32> = (0..ITEMS * OWN)
        .map(|at| match at % OWN {
            7 => (at / OWN) as i32,
            _ => at as i32 * 5 % 61,
        })
        .collect();
    let mut faults = Vec::new();
    for (name, _, work) in KERNELS {
        check(&program, name, work, &first, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn check(program: &Program, name: &str, work: Work, first: &[i32], faults: &mut Vec<String>) {
    let mut right = first.to_vec();
    right.chunks_mut(OWN).for_each(work);
    let any = program.compile_for_any_size(name).unwrap();
    for local in [1, 8, 16, 64] {
        let own = program.compile(name, [local, 1, 1]).unwrap();
        for (kernel, of) in [(&any, "any size"), (&*own, "this size")] {
            let found = ran(kernel, local, first);
            let at = (0..right.len()).find(|at| found[*at] != right[*at]);
            faults.extend(at.map(|at| {
                let (found, right) = (found[at], right[at]);
                format!("{name}, groups of {local}, for {of}: number {at} is {found}, not {right}")
            }));
        }
    }
}
