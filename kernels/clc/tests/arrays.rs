//! Arrays of a work-item's own that an index reaches, and bytes that are looked up in tables.

mod support;

use quipu_clc::{Output, Program};
use support::{Launch, program};

/// The optimiser's text of a kernel for groups of this size.
fn optimised(program: &Program, kernel: &str, local: [u32; 3]) -> String {
    let text = match program.emit(kernel, Some(local), Output::Optimised) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => panic!("{error}"),
    };
    let start = text.find("define void @quipu_run_groups");
    text[start.unwrap_or(0)..].to_owned()
}

/// True if the processor gathers words, and masks bytes.
fn has_wide_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Numbers of 32 bits, the same each time.
fn numbers(count: usize) -> Vec<u32> {
    let mut state = 12345_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 7
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn an_insertion_of_bytes_is_of_vectors() {
    let Some(program) = program(
        "kernel void middle(int n, global const uchar *in, global uchar *out) {
            int x = get_global_id(0);
            uchar sorted[25];
            for (int k = 0; k < n; k++) {
                uchar value = in[k * get_global_size(0) + x];
                int at = k;
                while (at > 0 && sorted[at - 1] > value) {
                    sorted[at] = sorted[at - 1];
                    at--;
                }
                sorted[at] = value;
            }
            out[x] = sorted[n / 2];
        }",
    ) else {
        return;
    };
    let text = optimised(&program, "middle", [32, 1, 1]);
    assert!(
        !has_wide_vectors() || text.contains("x i8> @llvm.masked.load"),
        "{text}"
    );
    let (n, items) = (25, 96);
    let input: Vec<u8> = numbers(n * items).iter().map(|x| *x as u8).collect();
    for local in [32, 3, 96] {
        let out = vec![0_u8; items];
        let mut launch = Launch::new([items, 1, 1], [local, 1, 1]);
        launch.value(n as i32);
        launch.memory(&input);
        launch.memory(&out);
        launch.run(&program, "middle");
        for (x, out) in out.iter().enumerate() {
            let mut all: Vec<u8> = (0..n).map(|k| input[k * items + x]).collect();
            all.sort_unstable();
            assert_eq!(*out, all[n / 2], "work-item {x} of groups of {local}");
        }
    }
}

#[test]
fn a_few_numbers_are_chosen_from_in_registers() {
    let Some(program) = program(
        "kernel void least(int n, global const float *in, global int4 *out) {
            int x = get_global_id(0);
            float best[4] = {FLT_MAX, FLT_MAX, FLT_MAX, FLT_MAX};
            int places[4] = {-1, -1, -1, -1};
            for (int k = 0; k < n; k++) {
                float value = in[k * get_global_size(0) + x];
                if (value < best[3]) {
                    int at = 3;
                    while (at > 0 && best[at - 1] > value) {
                        best[at] = best[at - 1];
                        places[at] = places[at - 1];
                        at--;
                    }
                    best[at] = value;
                    places[at] = k;
                }
            }
            out[x] = (int4)(places[0], places[1], places[2], places[3]);
        }
        kernel void counts(global const uint *in, global ulong *out) {
            uint x = get_global_id(0), number = in[x];
            ulong sums[6] = {1, 20, 300, 4000, 50000, 600000};
            double both[2][3] = {{0.5}};
            short small[8];
            for (int k = 0; k < 8; k++) small[k] = k - 4;
            for (int k = 0; k < 9; k++) {
                uint at = number >> k;
                sums[at % 6] += k + small[7 - (at & 7)];
                both[at & 1][at % 3] += sums[5 - at % 6];
                small[at >> 3 & 7] ^= (short)at;
            }
            ulong sum = 0;
            for (int k = 0; k < 6; k++) sum = sum * 31 + sums[k] + convert_ulong_sat(both[k / 3][k % 3]);
            for (int k = 0; k < 8; k++) sum = sum * 31 + (ushort)small[k];
            out[x] = sum;
        }",
    ) else {
        return;
    };
    for kernel in ["least", "counts"] {
        let text = optimised(&program, kernel, [64, 1, 1]);
        let in_memory = ["masked.gather", "masked.scatter", "masked.store"];
        let is_there = in_memory.iter().any(|access| text.contains(access));
        assert!(!has_wide_vectors() || !is_there, "{text}");
    }
    let (n, items) = (40, 128);
    let input: Vec<f32> = numbers(n * items).iter().map(|x| (x % 97) as f32).collect();
    let words = numbers(items);
    for local in [64, 1, 32] {
        let out = vec![0_i32; 4 * items];
        let mut launch = Launch::new([items, 1, 1], [local, 1, 1]);
        launch.value(n as i32);
        launch.memory(&input);
        launch.memory(&out);
        launch.run(&program, "least");
        for (x, out) in out.chunks(4).enumerate() {
            let mut all: Vec<usize> = (0..n).collect();
            // The first of those that are the same comes first.
            all.sort_by(|one, other| input[one * items + x].total_cmp(&input[other * items + x]));
            let wanted: Vec<i32> = all[..4].iter().map(|at| *at as i32).collect();
            assert_eq!(out, wanted, "work-item {x} of groups of {local}");
        }
        let out = vec![0_u64; items];
        let mut launch = Launch::new([items, 1, 1], [local, 1, 1]);
        launch.memory(&words);
        launch.memory(&out);
        launch.run(&program, "counts");
        for (x, out) in out.iter().enumerate() {
            assert_eq!(
                *out,
                counted(words[x]),
                "work-item {x} of groups of {local}"
            );
        }
    }
}

/// The result of the kernel `counts` for a number.
fn counted(number: u32) -> u64 {
    let mut sums = [1_u64, 20, 300, 4000, 50000, 600_000];
    let mut both = [[0.5_f64, 0.0, 0.0], [0.0; 3]];
    let mut small: [i16; 8] = std::array::from_fn(|k| k as i16 - 4);
    for k in 0..9 {
        let at = (number >> k) as usize;
        let sum = &mut sums[at % 6];
        *sum = sum.wrapping_add_signed(k + i64::from(small[7 - (at & 7)]));
        both[at & 1][at % 3] += sums[5 - at % 6] as f64;
        small[at >> 3 & 7] ^= at as i16;
    }
    let mut sum = 0_u64;
    for k in 0..6 {
        let of = sums[k].wrapping_add(both[k / 3][k % 3] as u64);
        sum = sum.wrapping_mul(31).wrapping_add(of);
    }
    let all = small.iter();
    all.fold(sum, |sum, of| {
        sum.wrapping_mul(31).wrapping_add((*of as u16).into())
    })
}

#[test]
fn small_arrays_have_what_was_written_wherever_that_came_from() {
    let Some(program) = program(
        "struct __attribute__((packed)) Apart { char kind[2]; int values[4]; char end[2]; };
        struct __attribute__((packed)) Pair { short first; int second; };
        typedef struct { int x, y, z, w; } Four;
        kernel void packed(global const ulong *in, global ulong *out) {
            size_t x = get_global_id(0);
            struct Apart s;
            struct Pair pairs[4];
            for (int k = 0; k < 4; k++) { s.values[k] = 10 + k; pairs[k].second = 20 * k; }
            pairs[in[x] >> 2 & 3].second += 7;
            out[x] = s.values[in[x] & 3] + 1000 * (ulong)pairs[in[x] >> 4 & 3].second;
        }
        kernel void chain(global const ulong *in, global ulong *out) {
            size_t x = get_global_id(0);
            ulong next[8], last[8];
            for (ulong k = 0; k < 8; k++) { next[k] = in[x] >> 3 * k & 7; last[k] = 3 * k; }
            ulong at = in[x] & 7;
            at = next[at];
            at = next[at];
            next[next[at]] = 9;
            out[x] = at + 10 * last[next[at] & 7] + 1000 * next[in[x] >> 5 & 7];
        }
        kernel void copied(global const ulong *in, global ulong *out) {
            local Four shared_by_all;
            size_t x = get_global_id(0);
            if (get_local_id(0) == 0) {
                Four four = {in[0] & 15, in[1] & 15, in[2] & 15, in[3] & 15};
                shared_by_all = four;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            Four own = shared_by_all;
            private const int *numbers = &own.x;
            out[x] = numbers[in[x] & 3];
        }",
    ) else {
        return;
    };
    let items = 64;
    let mut input: Vec<u64> = numbers(items).iter().map(|x| u64::from(*x)).collect();
    input.rotate_left(1);
    for kernel in ["packed", "chain", "copied"] {
        let out = vec![0_u64; items];
        let mut launch = Launch::new([items, 1, 1], [32, 1, 1]);
        launch.memory(&input);
        launch.memory(&out);
        launch.run(&program, kernel);
        for (x, out) in out.iter().enumerate() {
            let number = input[x];
            let wanted = match kernel {
                "packed" => {
                    let mut pairs = [0, 20, 40, 60];
                    pairs[(number >> 2 & 3) as usize] += 7;
                    10 + (number & 3) + 1000 * pairs[(number >> 4 & 3) as usize]
                }
                "chain" => {
                    let mut next: [u64; 8] = std::array::from_fn(|k| number >> (3 * k) & 7);
                    let at = next[next[(number & 7) as usize] as usize];
                    next[next[at as usize] as usize] = 9;
                    let last = 3 * (next[at as usize] & 7);
                    at + 10 * last + 1000 * next[(number >> 5 & 7) as usize]
                }
                _ => input[(number & 3) as usize] & 15,
            };
            assert_eq!(*out, wanted, "{kernel}, work-item {x}");
        }
    }
}

#[test]
fn the_same_element_of_all_work_items_is_one_vector() {
    let Some(program) = program(
        "typedef struct { uint count; float sum; } Pair;
        kernel void pairs(int n, global const uint *in, global uint *out) {
            uint x = get_global_id(0);
            Pair all[8];
            for (int k = 0; k < n; k++) {
                all[k & 7].count = in[k * get_global_size(0) + x];
                all[k & 7].sum = (float)(all[k & 7].count & 255);
            }
            out[x] = all[n & 7].count + (uint)all[(n + 1) & 7].sum;
        }
        kernel void mixed(global const uint *in, global uint *out) {
            uint x = get_global_id(0) + get_global_size(0) * get_global_id(1), number = in[x];
            uint words[5]; union { uint word; uchar bytes[4]; } both[3]; ushort near[7]; long far[3];
            for (int k = 0; k < 5; k++) words[k] = number + k;
            for (int k = 0; k < 3; k++) { both[k].word = number * (k + 1); far[k] = -(long)number - k; }
            for (int k = 0; k < 7; k++) near[k] = number >> k;
            for (int k = 0; k < 6; k++) {
                uint at = number >> k;
                words[at % 5] += near[at % 7];
                both[at % 3].bytes[at & 3] += k;
                near[(at + 1) % 7] ^= words[(at + 2) % 5];
                far[at % 3] += near[at % 7];
            }
            uint sum = 0;
            for (int k = 0; k < 5; k++) sum = sum * 31 + words[k];
            for (int k = 0; k < 3; k++) sum = sum * 31 + both[k].word + (uint)far[k] + (uint)(far[k] >> 32);
            for (int k = 0; k < 7; k++) sum = sum * 31 + near[k];
            out[x] = sum;
        }",
    ) else {
        return;
    };
    let text = optimised(&program, "pairs", [32, 1, 1]);
    assert!(!text.contains("llvm.masked.gather"), "{text}");
    let (n, items) = (20, 64);
    let input = numbers(n * items);
    let out = vec![0_u32; items];
    let mut launch = Launch::new([items, 1, 1], [32, 1, 1]);
    launch.value(n as i32);
    launch.memory(&input);
    launch.memory(&out);
    launch.run(&program, "pairs");
    for (x, out) in out.iter().enumerate() {
        // The last turns that wrote the two elements.
        let last = |element: usize| (0..n).rev().find(|k| k % 8 == element % 8).unwrap_or(0);
        let number = |k: usize| input[k * items + x];
        let wanted = number(last(n)).wrapping_add(number(last(n + 1)) & 255);
        assert_eq!(*out, wanted, "work-item {x}");
    }

    let mut launch = Launch::new([8, 8, 1], [4, 4, 1]);
    let out = vec![0_u32; items];
    launch.memory(&input);
    launch.memory(&out);
    launch.run(&program, "mixed");
    for (number, out) in input.iter().copied().zip(&out) {
        let mut words: [u32; 5] = std::array::from_fn(|k| number + k as u32);
        let mut both: [[u8; 4]; 3] =
            std::array::from_fn(|k| number.wrapping_mul(k as u32 + 1).to_le_bytes());
        let mut far: [i64; 3] = std::array::from_fn(|k| -i64::from(number) - k as i64);
        let mut near: [u16; 7] = std::array::from_fn(|k| (number >> k) as u16);
        for k in 0..6 {
            let at = (number >> k) as usize;
            words[at % 5] = words[at % 5].wrapping_add(near[at % 7].into());
            let byte = &mut both[at % 3][at & 3];
            *byte = byte.wrapping_add(k);
            near[(at + 1) % 7] ^= words[(at + 2) % 5] as u16;
            far[at % 3] += i64::from(near[at % 7]);
        }
        let mut sum = 0_u32;
        let mut add = |part: u32| sum = sum.wrapping_mul(31).wrapping_add(part);
        words.into_iter().for_each(&mut add);
        for (bytes, far) in both.into_iter().zip(far) {
            let word = u32::from_le_bytes(bytes);
            add(word
                .wrapping_add(far as u32)
                .wrapping_add((far >> 32) as u32));
        }
        near.into_iter().for_each(|near| add(near.into()));
        assert_eq!(*out, sum, "{number}");
    }
}

#[test]
fn bytes_that_are_looked_up_are_gathered() {
    let Some(program) = program(
        "kernel void look(global const uint *in, global const uchar *table, global const short *near, global uint *out) {
            uint x = get_global_id(0), at = in[x] & 255;
            out[x] = table[(table[at] + x) & 255] * 1000 + table[at] + (uint)near[table[at]];
        }",
    ) else {
        return;
    };
    let text = optimised(&program, "look", [64, 1, 1]);
    assert!(
        !has_wide_vectors() || text.contains("i32> @llvm.masked.gather"),
        "{text}"
    );
    let items = 256;
    let input = numbers(items);
    let bytes: Vec<u8> = numbers(264).iter().map(|x| *x as u8).collect();
    let near: Vec<i16> = numbers(256).iter().map(|x| *x as i16).collect();
    // Tables begin anywhere in a word.
    for start in 0..4 {
        let table = &bytes[start..start + 256];
        let out = vec![0_u32; items];
        let mut launch = Launch::new([items, 1, 1], [64, 1, 1]);
        launch.memory(&input);
        launch.memory(table);
        launch.memory(&near);
        launch.memory(&out);
        launch.run(&program, "look");
        for (x, out) in out.iter().enumerate() {
            let byte = table[(input[x] & 255) as usize];
            let other = table[(usize::from(byte) + x) & 255];
            let wanted = (u32::from(other) * 1000 + u32::from(byte))
                .wrapping_add(i32::from(near[usize::from(byte)]) as u32);
            assert_eq!(*out, wanted, "work-item {x}, table from {start}");
        }
    }
}

#[test]
fn an_array_begins_at_a_multiple_of_its_alignment_for_every_work_item() {
    let forms = [
        (16, "uint4"),
        (32, "uint8"),
        (64, "uint16"),
        (128, "ulong16"),
    ];
    let kernels = forms.iter().map(|(bytes, of)| {
        let length = bytes + 4;
        format!(
            "kernel void by_{of}(int zero, global {of} *out, global uint *far) {{
                uchar b[{length}] __attribute__((aligned({bytes})));
                uint i = get_global_id(0);
                for (int j = 0; j < {length}; j++) b[(j + zero) % {length}] = j * 3 + i;
                out[i] = *({of} *)(b + zero);
                far[i] = *(uint *)(b + {bytes} + zero) + (uint)((ulong)(b + zero) % {bytes});
            }}\n"
        )
    });
    let Some(program) = program(&kernels.collect::<String>()) else {
        return;
    };
    for (bytes, of) in forms {
        for local in [1, 3, 32] {
            // Vectors are aligned in the memory that is passed, too.
            let out = vec![0_u8; bytes * (local + 1)];
            let from = out.as_ptr().align_offset(bytes);
            let out = &out[from..from + bytes * local];
            let far = vec![0_u32; local];
            let mut launch = Launch::new([local, 1, 1], [local, 1, 1]);
            launch.value(0_i32);
            launch.memory(out);
            launch.memory(&far);
            launch.run(&program, &format!("by_{of}"));
            let byte = |item: usize, at: usize| (at * 3 + item) as u8;
            let wanted: Vec<u8> = (0..local)
                .flat_map(|item| (0..bytes).map(move |at| byte(item, at)))
                .collect();
            assert_eq!(out, wanted, "{of} {local}");
            for (item, far) in far.iter().enumerate() {
                let behind = [0, 1, 2, 3].map(|at| byte(item, bytes + at));
                assert_eq!(*far, u32::from_le_bytes(behind), "{of} {local} {item}");
            }
        }
    }
}
