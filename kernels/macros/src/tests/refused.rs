// What the macros refuse. It is read here, and `kernels/lang/tests/messages.rs` sends it through
// rustc.
refused! {
    // Expressions.
    strings: body("let a = \"text\";") at "\"text\"" says "use numbers";
    index_of_own_elements: body("let i = acc.index(Grid, Threads)[0]; y[i] = x[i];") at "y" says "for (i, y) in y.each()";
    index_of_own_elements_that_is_read: body("let a = y[n as usize];") at "y" says "for (i, y) in y.each()";
    own_elements_without_each: body("for (i, v) in y { *v = x[i]; }") at "y" says "for (i, y) in y.each()";
    element_that_is_a_pair: body("for v in y.each() { *v = x[0]; }") at "v" says "gives each element with its number";
    element_that_is_counted_again: body("for (i, v) in y.each().enumerate() { if i > 3 { *v = x[i]; } }") at "v" says "gives each element with its number";
    mutable_slice: kernel("fn k(acc: &impl Accelerator<1>, x: &[f32], y: &mut [f32]) {}") at "&mut [f32]" says "write `OwnElements<T>`";
    own_elements_of_other_dimensions: kernel("fn k(acc: &impl Accelerator<2>, x: GlobalRef<f32, 2>, y: OwnElements<f32>) {}") at "OwnElements<f32>" says "write `OwnElements<T, 2>`";
    a_tile_of_other_dimensions: kernel("fn k(acc: &impl Accelerator<1>, y: OwnTile<f32, 2>) {}") at "OwnTile<f32, 2>" says "as many dimensions as the accelerator";
    index_of_own_rows: kernel("fn k(acc: &impl Accelerator<1>, mut rows: OwnRows<f32>) { rows[0] = 3.0; }") at "rows" says "for (i, row) in";
    index_of_a_tile: kernel("fn k(acc: &impl Accelerator<1>, mut tile: OwnBlockTile<f32, 1>) { tile[0] = 3.0; }") at "tile" says "for (position, y) in";
    index_of_atomics: kernel("fn k(acc: &impl Accelerator<1>, bins: Atomics<u32>) { bins[3] += 1; }") at "bins" says "y.add(i, value)";
    index_of_raw_memory: kernel("fn k(acc: &impl Accelerator<1>, y: RawMut<u32>) { y[3] = 1; }") at "y" says "unsafe { y.write(i, value) }";
    index_of_shared_memory: kernel("async fn k(acc: &impl BlockAccelerator<1>, #[shared(9)] mut t: SharedWrite<u32>) { t[acc.lane()] = 1; }")
        at "t" says "sums.own()[0] = x[i]";
    index_in_a_device_function: device("fn f(y: RawMut<u32>, n: usize) { y[n] = 1; }") at "y" says "unsafe { y.write(i, value) }";
    characters: body("let a = 'a';") at "'a'" says "b'a'";
    question_in_a_closure: body("let f = |a: u32| a?;") at "?" says "`#[device] fn`";
    map: body("let a = acc.elements(3).map(|i| i);") at "map" says "nothing comes behind them";
    map_before_others: body("let a: f32 = x.iter().map(|a| a * 2.0).take_while(|a| *a > 1.0).rev().sum();") at "take_while" says "other adapters before them";
    filter_before_others: body("for (i, a) in x.iter().filter(|a| **a > 2.0).skip(2).enumerate() {}") at "filter" says "other adapters before them";
    return_in_a_condition: body("let a = x.iter().any(|a| { return *a > 2.0; });") at "return" says "`#[device] fn`";
    break_in_a_fold: body("loop { let a = x.iter().fold(0.0, |a, b| { break; }); }") at "break" says "no such loop";
    pointers: body("let a = x.as_ptr();") at "as_ptr" says "RawMut";
    raw_address: body("let a = &raw const n;") at "raw" says "RawMut";
    closure_as_value: body("let f = |a: u32| a; let g = f;") at "f" says "passed to a `#[device] fn`";
    closure_copied_as_it_is_passed: body("let mut k = n; let mut count = move || { k += 1; k }; count(); drop(&mut count); drop(count);") at "count" says "`&mut f`";
    closure_copied_into_another: body("let mut k = [n]; let mut count = move || { k[0] += 1; k[0] }; let mut g = move || count() + 1; g();") at "count" says "without `move`";
    closure_copied_into_a_macro_of_another: body("let mut k = n; let mut set = move || std::mem::swap(&mut k, &mut 3); let mut g = move || assert!({ set(); true }); g();") at "set" says "without `move`";
    closures_that_are_copied: device("fn f(f: impl FnMut() -> u32 + Copy) -> u32 { f() }") at "Copy" says "an `Fn`";
    closures_of_a_type_that_are_copied: device("fn f<F>(f: F) -> u32 where F: Clone + FnOnce() -> u32 { f() }") at "Clone" says "an `Fn`";
    return_in_closure: body("let f = |a: u32| { return a; };") at "return" says "`#[device] fn`";
    async_block: body("let a = async { 3 };") at "async" says "`async fn`";
    const_block: body("let a = n + const { 3 };") at "const" says "`const` item";
    item: body("fn inner() {}") at "fn" says "write this one outside";
    underscore: body("let a = _ + n;") at "_" says "name it";
    panics: body("panic!(\"no\");") at "panic" says "kernels do not panic";
    never_reached: body("unreachable!();") at "unreachable" says "kernels do not panic";
    not_done: body("todo!();") at "todo" says "kernels do not panic";
    not_written: body("unimplemented!();") at "unimplemented" says "kernels do not panic";
    assertion_of_one_side: body("assert_eq!(n);") at "assert_eq" says "assert_eq!(a, b)";
    assertion_of_equality_with_a_format: body("assert_ne!(n, 3, \"{:?}\", n);") at "\"{:?}\"" says "no other format";
    texts: body("let a = format!(\"{n}\");") at "format" says "use numbers";
    assertion_with_three_values: body("assert!(n > 3, \"{n}{n}{}\", n);") at "\"{n}{n}{}\"" says "two values at most";
    assertion_with_a_format: body("assert!(n > 3, \"{:?}\", n);") at "\"{:?}\"" says "no other format";
    print_format: body("print!(\"{:?}\", n);") at "\"{:?}\"" says "no other format";
    print_expression: body("println!(\"{n + 1}\");") at "\"{n" says "no other format";
    print_open: body("println!(\"{n\");") at "\"{n" says "no other format";
    print_braces: body("println!(\"{{}}\");") at "\"{{}}\"" says "a space between";
    print_value: body("println!(\"{}\", 'a');") at "'a'" says "use numbers";
    print_to_errors: body("eprintln!(\"no\");") at "eprintln" says "write what it stands for";
    vectors: body("let a = vec![1, 2];") at "vec" says "use an array";
    matches_of_nothing: body("let a = matches!(n);") at "matches" says "matches!(value, pattern)";
    unknown_macro: body("frobnicate!(n);") at "frobnicate" says "write what it stands for";
    reference_to_a_part: body("let (ref mut a, b) = n;") at "ref" says "by reference";
    reference_to_a_variable: body("let ref mut a = n;") at "ref" says "by reference";
    rest_in_the_middle: body("let [a, .., b] = [n, n];") at "[" says "use indices";
    unknown_label: body("loop { break 'nowhere; }") at "break" says "no such loop";
    unknown_label_of_the_next_round: body("loop { continue 'nowhere; }") at "continue" says "no such loop";
    pattern: body("match n { const { 3 } => {} _ => {} }") at "const" says "use names";
    pattern_without_a_value: body("let (a, b);") at "(" says "use names";
    no_arms: body("match n {}") at "match" says "without arms";
    assertion: body("assert!(n > 3; n);") at "assert" says "assert!(condition)";
    what_nobody_knows: body("yield n;") at "yield" says "the documentation of `#[kernel]`";
    barrier_without_await: waits("acc.sync_block_threads();") at "sync_block_threads" says "write `.await` behind it";
    vote_without_await: waits("let a = acc.warp_any(n > 2);") at "warp_any" says "write `.await` behind it";
    waiting_for_a_variable: body("n.await;") at "await" says "barriers";

    collected: body("let a: Vec<u32> = (0..n).map(|i| i + 1).collect();") at "collect" says "memory is not allocated";
    reduced: body("let a = x.iter().copied().reduce(|a, b| a + b);") at "reduce" says "write `fold` with a first value";
    folded_with_a_way_out: body("let a = x.iter().try_fold(0.0, |a, b| Some(a + b));") at "try_fold" says "write a `for` loop";
    boxed: body("let a = Box::new(n + 1);") at "Box" says "memory is not allocated";
    boxed_constant: body("let a = Box::new(3);") at "Box" says "memory is not allocated";
    hashed: body("let a = std::collections::HashMap::<u32, u32>::new();") at "std" says "memory is not allocated";
    converted_if_it_fits: body("let a = u8::try_from(n);") at "u8" says "compare with `MAX`";
    parsed: body("let a = u32::from_str_radix(n, 10);") at "u32" says "use numbers";
    host_variable_that_is_counted: body("unsafe { COUNT += 1; }") at "COUNT" says "write a `Variable`";
    host_variable_that_is_assigned: body("unsafe { state::TABLE[2].size = n; f(n) }") at "TABLE" says "write a `Variable`";
    host_variable_by_reference: body("unsafe { f(&mut COUNT) }") at "COUNT" says "write a `Variable`";
    host_variable_that_is_read: body("let a = unsafe { TABLE[n as usize] } + 1;") at "TABLE" says "write a `Variable`";
    shared_local: waits("#[shared(64)] let mut sums: SharedWrite<u32>; sums.own()[0] = 1;") at "#" says "is a parameter of the kernel";
    order_of_an_atomic: kernel("fn k(acc: &impl Accelerator<1>, c: Atomics<u32>) { c.fetch_add(1, Ordering::Relaxed); }") at "fetch_add" says "`counts.add(i, 1)`";
    atomic_without_a_number: kernel("fn k(acc: &impl Accelerator<1>, c: Atomics<u32>) { c.add(1); }") at "add" says "`counts.add(i, 1)`";
    atomic_with_an_order: kernel("fn k(acc: &impl Accelerator<1>, c: Atomics<u32>) { let a = c.load(0, Ordering::Relaxed); }") at "load" says "`counts.load(i)`";
    atomic_store_with_an_order: kernel("fn k(acc: &impl Accelerator<1>, c: Atomics<u32>) { c.store(1, Ordering::Relaxed); }") at "store" says "`counts.store(i, value)`";
    atomic_that_is_swapped: kernel("async fn k(acc: &impl BlockAccelerator<1>, #[shared(2)] c: SharedAtomics<u32>) { c.swap(0, 1); }") at "swap" says "`counts.exchange(i, value)`";

    function_as_an_argument: body("let a = f(twice, n);") at "twice" says "a closure that calls it";
    match_of_a_tuple_with_a_slice: body("match (n, &x[1..]) { (0, _) => {} _ => {} }") at "&x" says "a tuple in kernels has no slices";

    // Kernels.
    reference_in_a_struct: kernel("fn k(acc: &impl Accelerator<1>, settings: Settings<'_>) {}") at "Settings" says "pass the slice beside the struct";
    shared_plane: kernel("async fn k(acc: &impl BlockAccelerator<2>, #[shared([16, 16])] s: SharedWrite<u32>) {}") at "[16, 16]" says "has one dimension";
    shared_plane_of_two_lengths: kernel("async fn k(acc: &impl BlockAccelerator<2>, #[shared(16, 16)] s: SharedWrite<u32>) {}") at "16)" says "has one dimension";
    shared_plane_of_its_type: kernel("async fn k(acc: &impl BlockAccelerator<2>, #[shared(256)] s: SharedWrite<u32, 2>) {}") at "SharedWrite" says "has one dimension";
    no_accelerator: kernel("fn k(n: u32) {}") at "(" says "`acc: &impl Accelerator<1>`";
    second_accelerator: kernel("fn k(acc: &impl Accelerator<1>, other: &impl Accelerator<1>) {}") at "&" says "first parameter is the accelerator";
    second_accelerator_without_a_name: kernel("fn k(acc: &impl Accelerator<1>, _: &impl Accelerator<1>) {}") at "&" says "first parameter is the accelerator";
    async_without_barriers: kernel("async fn k(acc: &impl Accelerator<1>) {}") at "fn" says "take a `BlockAccelerator`";
    generic_accelerator: kernel("fn k<A: Accelerator<1>>(acc: &A) {}") at "A" says "without a type parameter";
    barriers_without_async: kernel("fn k(acc: &impl BlockAccelerator<1>) {}") at "fn" says "write `async` before `fn`";
    result: kernel("fn k(acc: &impl Accelerator<1>) -> u32 { 3 }") at "u32" says "gives nothing back";
    receiver: kernel("fn k(&self, acc: &impl Accelerator<1>) {}") at "&" says "above its `impl`";
    kernel_struct: kernel("struct Scale;") at "struct" says "for functions";
    kernel_trait: kernel("impl Run for Scale { fn run(self, acc: &impl Accelerator<1>) {} }") at "Run" says "leave the trait out";
    kernel_helper: kernel("impl Scale { fn run(factor: f32) {} }") at "fn" says "an `impl` of their own";
    kernel_self: kernel("impl Scale { fn run(&mut self, acc: &impl Accelerator<1>) {} }") at "&" says "nobody sees";
    kernel_method_body: kernel("impl Scale { fn run(self, acc: &impl Accelerator<1>) { vec![1]; } }") at "vec" says "use an array";
    lifetimes: kernel("fn k<'a>(acc: &impl Accelerator<1>, x: &'a [f32]) {}") at "'a" says "leave them out";
    closure_parameter: kernel("fn k(acc: &impl Accelerator<1>, f: impl Fn(u32) -> u32) {}") at "impl" says "a closure is none";
    closure_type: kernel("fn k<F>(acc: &impl Accelerator<1>, f: F) where F: Fn(u32) -> u32 {}") at "F" says "a closure is none";
    impl_trait: kernel("fn k(acc: &impl Accelerator<1>, f: impl Shape) {}") at "impl" says "name the type";
    pointer: kernel("fn k(acc: &impl Accelerator<1>, x: *const f32) {}") at "*" says "take `RawMut<T>`";
    reference_to_a_pointer: kernel("fn k(acc: &impl Accelerator<1>, x: &*mut f32) {}") at "*" says "take `RawMut<T>`";
    function_pointer: kernel("fn k(acc: &impl Accelerator<1>, f: fn(u32) -> u32) {}") at "fn" says "closures in kernels are called";
    type_without_a_name: kernel("impl [u32; 3] { fn run(self, acc: &impl Accelerator<1>) {} }") at "[" says "name the type";
    trait_object: kernel("fn k(acc: &impl Accelerator<1>, f: &dyn Shape) {}") at "dyn" says "use generics";
    parameter_pattern: kernel("fn k(acc: &impl Accelerator<1>, (a, b): (u32, u32)) {}") at "(" says "with `let`";
    parameter_without_a_name: kernel("fn k(acc: &impl Accelerator<1>, _: u32) {}") at "_" says "`_unused: u32`";
    shared_without_length: kernel("async fn k(acc: &impl BlockAccelerator<1>, s: SharedWrite<u32>) {}")
        at "SharedWrite" says "how long";
    shared_atomics_without_length: kernel("async fn k(acc: &impl BlockAccelerator<1>, s: SharedAtomics<u32>) {}")
        at "SharedAtomics" says "how long";
    shared_reading_of_a_kernel: kernel("async fn k(acc: &impl BlockAccelerator<1>, s: SharedRead<u32>) {}")
        at "SharedRead" says "how long";
    shared_raw_of_a_kernel: kernel("async fn k(acc: &impl BlockAccelerator<1>, s: SharedRaw<u32>) {}")
        at "SharedRaw" says "how long";
    length_of_what_is_read: kernel("async fn k(acc: &impl BlockAccelerator<1>, #[shared(3)] s: SharedRead<u32>) {}")
        at "3" says "SharedWrite<T>";
    length_of_what_is_raw: kernel("async fn k(acc: &impl BlockAccelerator<1>, #[shared(3)] s: SharedRaw<u32>) {}")
        at "SharedRaw<u32>" says "into_raw()";
    vector_parameter: kernel("fn k(acc: &impl Accelerator<1>, x: &Vec<u32>) {}") at "&Vec<u32>" says "write `&[T]`";
    tuples_in_memory: kernel("fn k(acc: &impl Accelerator<1>, edges: &[(u32, u32)]) {}") at "(u32, u32)" says "`#[repr(C)]` struct";
    atomics_of_bytes: kernel("fn k(acc: &impl Accelerator<1>, bytes: Atomics<u8>) {}") at "u8" says "of `u32`, `i32`";
    atomics_of_truth: kernel("fn k(acc: &impl Accelerator<1>, flags: Atomics<bool>) {}") at "bool" says "of `u32`, `i32`";
    thirteen_parameters: kernel("fn k(acc: &impl Accelerator<1>, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8, m: u8) {}")
        at "m" says "up to 12 parameters";
    length_of_something_else: kernel("fn k(acc: &impl Accelerator<1>, #[shared(3)] s: u32) {}")
        at "3" says "SharedWrite<T>";
    variable_that_is_a_value: kernel("fn k(acc: &impl Accelerator<1>, #[variable(V)] s: u32) {}") at "#" says "memory of the device";
    variable_that_is_shared: kernel("async fn k(acc: &impl BlockAccelerator<1>, #[shared(3)] #[variable(V)] s: SharedWrite<u32>) {}") at "#" says "memory of the device";
    variable_of_a_device_function: device("fn f(#[variable(V)] s: &[u32]) {}") at "V" says "passed what the kernel has";
    capture_without_a_type: closure("[a] |acc: &impl Accelerator<1>, x: &[f32]| {}") at "a" says "say which type it has";
    closure_parameter_without_a_type: closure("|acc: &impl Accelerator<1>, x| {}") at "x" says "as of a kernel";
    closure_with_a_result: closure("|acc: &impl Accelerator<1>| -> u32 { 3 }") at "u32" says "gives nothing back";
    closure_that_is_none: closure("[a: u32] run(a)") at "run" says "a kernel is a closure here";
    closure_without_accelerator: closure("|x: &[f32]| {}") at "" says "first parameter is the accelerator";
    shared_without_async: kernel("fn k(acc: &impl Accelerator<1>, #[shared(3)] s: SharedWrite<u32>) {}")
        at "3" says "write `async fn`";

    // Barriers that only some threads come to.
    barrier_of_one: waits("if acc.thread_index()[0] == 0 { acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread of a block";
    barrier_of_others: waits("let t = acc.index(Grid, Threads)[0]; if t < 3 {} else if n > 2 { acc.sync(x).await; }") at "sync" says "assume_uniform";
    barrier_of_a_vote: waits("let (i, j) = (n, acc.lane()); let k = (j as usize + 1) % 2; match k { 0 => {} _ => { let a = acc.sync_block_threads_or(true).await; } }") at "sync_block_threads_or" says "a vote";
    barrier_in_own_rounds: waits("let t = acc.index(Block, Threads)[0]; for i in 0..t { acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread";
    barrier_while_own: waits("while !acc.once_per_block() { acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread";
    barrier_for_own_elements: waits("for i in acc.elements(x.len()) { if x[i] > 3.0 { acc.sync_block_threads().await; } }") at "sync_block_threads" says "every thread";
    barrier_of_a_component: waits("let [t] = acc.index(Block, Threads).components(); if t == 0 { acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread";
    barrier_of_an_array: waits("let [t, m] = [acc.lane(), n]; if m > 3 { acc.sync_block_threads().await; } if t == 0 { acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread";
    barrier_of_a_pattern: waits("if let 0 = acc.lane() { acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread";
    barrier_after_return: waits("if acc.once_per_grid() || acc.lane() == 2 { return; } if n > 3 { acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread";
    barrier_after_break: waits("let t = acc.lane(); loop { if t == 2 { loop { break; } break; } acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread";
    barrier_after_continue: waits("let t = acc.lane(); 'a: loop { if t == 2 { loop { continue 'a; } } acc.sync_block_threads().await; }") at "sync_block_threads" says "every thread";
    vote_of_one: waits("if acc.lane() == 0 { let a = acc.warp_any(n > 2).await; }") at "warp_any" says "every thread of a warp";
    barrier_of_a_device_function: device("async fn f(acc: &impl BlockAccelerator<1>) { if acc.lane() == 0 { return; } acc.sync_block_threads().await; }")
        at "sync_block_threads" says "every thread";

    // Device functions, and data.
    device_body: device("fn f(n: u32) -> u32 { vec![1]; n }") at "vec" says "use an array";
    device_recursion: device("fn f(n: u32) -> u32 { if n == 0 { 0 } else { f(n - 1) } }") at "f" says "write a loop";
    device_method: device("impl Square { fn f(self) -> u32 { vec![1] } }") at "vec" says "use an array";
    device_struct: device("struct Square { side: u32 }") at "struct" says "derive(KernelData)";
    operator_of_references: device("impl Add for &Square { type Output = Square; fn add(self, other: Self) -> Square { *self } }")
        at "&" says "the one for values";
    operator_with_a_reference: device("impl Add<&Square> for Square { type Output = Square; fn add(self, other: &Square) -> Square { self } }")
        at "&" says "the one for values";
    conversion: device("impl TryFrom<u32> for Square { type Error = u32; fn try_from(side: u32) -> Result<Square, u32> { Ok(Square { side }) } }") at "TryFrom" says "a method of the type's own";
    conversion_of_a_reference: device("impl From<&u32> for Square { fn from(side: &u32) -> Square { Square { side: *side } } }") at "&" says "one for values";
    index_by_a_condition: device("impl IndexMut<u32> for Square { fn index_mut(&mut self, at: u32) -> &mut u32 { if at == 3 { return &mut self.side; } &mut self.other } }") at "&" says "`&mut self.parts[i]`";
    conversion_body: device("impl From<u32> for Square { fn from(side: u32) -> Square { vec![1]; Square { side } } }") at "vec" says "use an array";
    index_of_a_reference: device("impl Index<&u32> for Square { type Output = u32; fn index(&self, at: &u32) -> &u32 { &self.side } }") at "&" says "one for values";
    sum: device("impl std::iter::Sum for Square { fn sum<I: Iterator<Item = Square>>(all: I) -> Square { square(3) } }") at "std" says "a method of the type's own";
    operator_body: device("impl Add for Square { type Output = Square; fn add(self, other: Self) -> Square { vec![1]; other } }")
        at "vec" says "use an array";
    layout: derive("struct Square { side: u32 }") at "Square" says "`#[repr(C)]`";
    reference_field: derive("#[repr(C)] struct Square<'a> { side: &'a [u32] }") at "&" says "pass the slice beside the struct";
    lifetime_of_a_struct: derive("#[repr(C)] struct Square<'a> { side: Side<'a> }") at "'a" says "pass the slice beside the struct";
    unit_field: derive("#[repr(C)] struct Square { side: u32, none: () }") at "()" says "leave the field out";
    packed: derive("#[repr(C, packed)] struct Square { side: u32 }") at "packed" says "order the fields";
    alignment: derive("#[repr(C, align(32))] struct Square { side: u32 }") at "32" says "`align(16)`";
    union: derive("#[repr(C)] union Square { side: u32 }") at "union" says "two fields";
    width: derive("enum Mode { Add }") at "Mode" says "`#[repr(u32)]`";
    empty_enum: derive("#[repr(u32)] enum Mode {}") at "Mode" says "at least one variant";
}
