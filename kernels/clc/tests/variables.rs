//! Variables at program scope: the kernels of a program share them, and values that are written to
//! them stay.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Program, Unit};
use support::{Launch, program};

const TEXT: &str = "
    global int count = 5;
    global int table[4] = { 10, 20, 30, 40 };
    global int *global place = &table[2];
    static global atomic_int hits = 1000;
    global float nothing[8];
    kernel void add(int by, global int *out) {
        static global int inner = 1;
        if (get_global_id(0) == 0) {
            count += by;
            inner *= 2;
            *place += count;
            place = &table[0];
            out[0] = count;
            out[1] = inner;
        }
        atomic_fetch_add(&hits, 1);
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    int sum(int *of) { return of[0] + of[1] + of[2] + of[3]; }
    kernel void see(global int *out) {
        out[get_global_id(0)] = get_global_id(0) < 4 ? table[get_global_id(0)] : count;
        if (get_global_id(0) == 7) {
            out[5] = sum(table);
            out[6] = atomic_load(&hits);
            out[7] = nothing[3] == 0.0f && place == table;
        }
    }
    kernel void plain(global int *out) { out[0] = count; }
    kernel void alone(global int *out) { out[0] = 3; }";

fn built(text: &str) -> Option<Program> {
    // It sets the compiler, and says if there is none.
    program("kernel void k() {}")?;
    Some(Program::new(text, "-cl-std=CL3.0").unwrap())
}

fn add(program: &Program, by: i32, size: [usize; 2]) -> [i32; 2] {
    let out = vec![0; 2];
    let mut launch = Launch::new([size[0], 1, 1], [size[1], 1, 1]);
    launch.value(by);
    launch.memory(&out);
    launch.run(program, "add");
    out.try_into().unwrap()
}

fn see(program: &Program) -> [i32; 8] {
    let out = vec![0; 8];
    let mut launch = Launch::new([8, 1, 1], [4, 1, 1]);
    launch.memory(&out);
    launch.run(program, "see");
    out.try_into().unwrap()
}

#[test]
fn kernels_of_a_program_share_its_variables_whichever_size_they_have() {
    let Some(program) = built(TEXT) else { return };
    let other = Program::new(TEXT, "-cl-std=CL3.0").unwrap();
    assert_eq!(program.variable_bytes(), 4 + 16 + 8 + 4 + 32 + 4);
    let reaches = |name: &str| program.kernel(name).unwrap().reaches_beyond;
    assert_eq!(
        ["add", "see", "plain", "alone"].map(reaches),
        [true, true, true, false]
    );
    assert_eq!(see(&program), [10, 20, 30, 40, 5, 100, 1000, 0]);
    assert_eq!(add(&program, 1, [8, 4]), [6, 2]);
    assert_eq!(see(&program), [10, 20, 36, 40, 6, 106, 1008, 1]);
    // Other code, for another size.
    assert_eq!(add(&program, 2, [6, 3]), [8, 4]);
    assert_eq!(see(&program), [18, 20, 36, 40, 8, 114, 1014, 1]);
    // Another program of the same text has its own.
    assert_eq!(see(&other), [10, 20, 30, 40, 5, 100, 1000, 0]);
}

#[test]
fn units_that_are_linked_share_variables() {
    if built(TEXT).is_none() {
        return;
    }
    let unit = |text: &str| Unit::new(text, "-cl-std=CL3.0", &[]).unwrap();
    let has = unit(
        "global int shared = 7; kernel void add(int by, global int *out) { shared += by; out[0] = shared; }",
    );
    let uses = unit(
        "extern global int shared; kernel void see(global int *out) { out[get_global_id(0)] = shared; }",
    );
    let program = Program::of(&Unit::link(&[&has, &uses]).unwrap()).unwrap();
    assert_eq!(add(&program, 5, [1, 1])[0], 12);
    assert_eq!(see(&program), [12; 8]);
}

/// Constants that hold addresses of variables: tables that a text writes out, and those that clang
/// makes of what is in private memory.
#[test]
fn constants_may_hold_addresses_of_variables() {
    const TABLES: [(&str, &str, &str); 5] = [
        ("", "global int *const t[2] = {&x, &y};", "*t[n & 1]"),
        (
            "",
            "global int *t[12] = {&x, &y, &x, &y, &x, &y, &x, &y, &x, &y, &x, &y}; t[n & 7] = &y;",
            "*t[(n & 1) + 8]",
        ),
        (
            "typedef struct { int a; global int *b; } S;",
            "S t[2] = {{1, &x}, {2, &y}};",
            "*t[n & 1].b",
        ),
        (
            "global int *constant t[2] = {&x, &y}; global int *constant *constant deep = t;",
            "",
            "*deep[n & 1]",
        ),
        (
            "typedef struct N { constant struct N *next; global int *at; } N; extern constant N two;
             constant N one = {&two, &x}; constant N two = {&one, &y};",
            "constant N *t = &one; for (int k = 0; k < n; k++) t = t->next;",
            "*t->at",
        ),
    ];
    for (outside, inside, read) in TABLES {
        let text = format!(
            "global int x = 3, y = 4; {outside}
             kernel void k(global int *out, int n) {{ {inside} out[get_global_id(0)] = {read}; }}
             kernel void change(int by) {{ x += by; y += 2 * by; }}
             kernel void plain(global int *out, int n) {{ out[get_global_id(0)] = n ? y : x; }}"
        );
        let Some(program) = built(&text) else { return };
        for change in [0, 10] {
            let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
            launch.value(change);
            launch.run(&program, "change");
            for (n, wanted) in [(0, 3 + change), (1, 4 + 2 * change)] {
                for kernel in ["k", "plain"] {
                    let out = vec![0; 4];
                    let mut launch = Launch::new([4, 1, 1], [2, 1, 1]);
                    launch.memory(&out);
                    launch.value(n);
                    launch.run(&program, kernel);
                    assert_eq!(out, [wanted; 4], "{kernel}: {read}, {n}");
                }
            }
        }
    }
}

/// Constants that refer to each other in a circle, as tables of states do.
#[test]
fn constants_may_refer_to_each_other_in_a_circle() {
    let text = "
        typedef struct Node { constant struct Node *next; int value; } Node;
        extern constant Node second;
        constant Node first = { &second, 3 };
        constant Node second = { &first, 4 };
        kernel void walk(global int *out) {
            constant Node *at = &first;
            for (int i = 0; i < (int)get_global_id(0); i++) at = at->next;
            out[get_global_id(0)] = at->value;
        }";
    let Some(program) = built(text) else { return };
    let out = vec![0; 4];
    let mut launch = Launch::new([4, 1, 1], [4, 1, 1]);
    launch.memory(&out);
    launch.run(&program, "walk");
    assert_eq!(out, [3, 4, 3, 4]);
}
