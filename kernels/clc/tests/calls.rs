//! Functions that kernels call in hundreds of places.
#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

mod support;

use quipu_clc::{Output, Program};
use support::Launch;

/// The calls of a function in a kernel.
const CALLS: usize = 300;

/// A kernel that calls a function often, which has a number of each work-item's own, and memory.
fn source(first: &str) -> String {
    let mut text = format!(
        "__attribute__((noinline)) void mix(uint *to, const uchar *from, global const int *x, int n) {{
            {first}
            for (int k = 0; k < n; k++) {{
                uint v = from[k] * 2654435761u;
                v ^= v >> 15; v *= 2246822519u; v ^= v >> 13; v *= 3266489917u; v ^= v >> 16;
                if (v & 1) v += x[k]; else v ^= x[k] << 3;
                *to = *to * 31 + v;
            }} }}
        kernel void k(global const int *x, global uint *out) {{
            int i = get_global_id(0); uint all = i;\n"
    );
    for call in 0..CALLS {
        text += &format!(
            "            {{ union {{ uint4 v; uchar raw[16]; }} from; from.v = (uint4)(all, i, {call}, x[{}]);\n\
             \x20              mix(&all, from.raw, x, {}); }}\n",
            call % 16,
            call % 17
        );
    }
    text + "            out[i] = all; }"
}

fn expected(x: &[i32; 16], i: u32) -> u32 {
    let mut all = i;
    for call in 0..CALLS {
        let words = [all, i, call as u32, x[call % 16] as u32];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for k in 0..call % 17 {
            let mut v = u32::from(bytes[k]).wrapping_mul(2_654_435_761);
            v ^= v >> 15;
            v = v.wrapping_mul(2_246_822_519);
            v ^= v >> 13;
            v = v.wrapping_mul(3_266_489_917);
            v ^= v >> 16;
            v = match v & 1 {
                1 => v.wrapping_add(x[k] as u32),
                _ => v ^ (x[k] << 3) as u32,
            };
            all = all.wrapping_mul(31).wrapping_add(v);
        }
    }
    all
}

/// True if the function stays one; the results are right in any case.
fn stays(program: &Program) -> bool {
    let x: [i32; 16] = std::array::from_fn(|at| at as i32 * 77_777 - 500_000);
    for local in [1, 8] {
        let out = vec![0_u32; 24];
        let mut launch = Launch::new([24, 1, 1], [local, 1, 1]);
        launch.memory(&x);
        launch.memory(&out);
        launch.run(program, "k");
        for (i, out) in out.iter().enumerate() {
            assert_eq!(*out, expected(&x, i as u32), "{local}, {i}");
        }
    }
    calls(program)
}

/// True if the kernel calls a function of the program.
fn calls(program: &Program) -> bool {
    let text = program.emit("k", None, Output::Passes).unwrap();
    String::from_utf8(text).unwrap().contains("@quipu.kept.")
}

#[test]
fn a_large_function_that_is_called_in_hundreds_of_places_stays_a_function() {
    let Some(program) = support::program(&source("")) else {
        return;
    };
    assert!(stays(&program));
    // What it does to memory is known all the same.
    let parameters = &program.kernel("k").unwrap().parameters;
    let reads = format!("{:?}", parameters[0].kind);
    assert_eq!(reads, "Memory(Read)");
    assert!(!program.kernel("k").unwrap().reaches_beyond);
}

#[test]
fn a_function_that_asks_for_the_work_item_is_inlined() {
    const ROUNDS: usize = 8;
    let round = "v = v * 2654435761u + x; v ^= v >> 15; x += v << 3;";
    let mut text = format!(
        "__attribute__((noinline)) uint mix(uint v, uint x) {{ x += get_local_id(0); {} return v; }}
        kernel void k(global uint *out) {{ int i = get_global_id(0); uint v = i;\n",
        round.repeat(ROUNDS)
    );
    for call in 0..CALLS {
        text += &format!("            v = mix(v, {call});\n");
    }
    text += "            out[i] = v; }";
    let Some(program) = support::program(&text) else {
        return;
    };
    assert!(!calls(&program));
    let out = vec![0_u32; 16];
    let mut launch = Launch::new([16, 1, 1], [8, 1, 1]);
    launch.memory(&out);
    launch.run(&program, "k");
    for (i, out) in out.iter().enumerate() {
        let mut v = i as u32;
        for call in 0..CALLS as u32 {
            let mut x = call + i as u32 % 8;
            for _ in 0..ROUNDS {
                v = v.wrapping_mul(2_654_435_761).wrapping_add(x);
                v ^= v >> 15;
                x = x.wrapping_add(v << 3);
            }
        }
        assert_eq!(*out, v, "{i}");
    }
}

#[test]
fn a_function_that_prints_is_known_to() {
    let Some(program) = support::program(&source("if (n > 1000) printf(\"%d;\", from[8]);")) else {
        return;
    };
    assert!(stays(&program));
    assert!(program.kernel("k").unwrap().reaches_beyond);
}
