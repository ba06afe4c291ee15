//! Tests of every refusal: that it comes alone, and its words. Code that is read here has no
//! positions, so the same words twice count as one refusal. `kernels/lang/tests/messages.rs` has
//! rustc say where in the user's source each refusal is.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use crate::options::Options;

/// The words of the refusals, in their order.
fn refusals(written: TokenStream) -> Vec<String> {
    let tokens: Vec<_> = written.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(refusals(group.stream())),
            TokenTree::Ident(name) if name == "compile_error" => {
                if let Some(TokenTree::Group(group)) = tokens.get(at + 2) {
                    let message: syn::LitStr = syn::parse2(group.stream()).unwrap();
                    found.push(message.value());
                }
            }
            _ => {}
        }
    }
    found
}

fn expanded(result: syn::Result<TokenStream>) -> Vec<String> {
    refusals(result.unwrap_or_else(syn::Error::into_compile_error))
}

fn kernel(source: &str) -> Vec<String> {
    let item = syn::parse_str(source).unwrap();
    expanded(crate::kernel::expand(&Options::default(), item))
}

fn device(source: &str) -> Vec<String> {
    let item = syn::parse_str(source).unwrap();
    expanded(crate::device::expand(&Options::default(), item))
}

fn closure(source: &str) -> Vec<String> {
    let item = syn::parse_str(source);
    expanded(item.and_then(|item| crate::closure::expand(&item)))
}

fn derive(source: &str) -> Vec<String> {
    let item = syn::parse_str(source).unwrap();
    expanded(crate::data::expand(&item))
}

/// A kernel with this in its body.
fn body(statements: &str) -> Vec<String> {
    kernel(&format!(
        "fn k(acc: &impl Accelerator<1>, x: &[f32], n: u32, mut y: OwnElements<f32>) {{ {statements} }}"
    ))
}

/// A kernel with barriers, with this in its body.
fn waits(statements: &str) -> Vec<String> {
    kernel(&format!(
        "async fn k(acc: &impl BlockAccelerator<1>, x: &[f32], n: u32, mut y: OwnElements<f32>) {{ {statements} }}"
    ))
}

/// Checks that exactly one thing is refused, and that the message says `words`.
#[track_caller]
fn assert_refused(refusals: &[String], words: &str) {
    let [message] = refusals else {
        panic!("one refusal was expected: {refusals:#?}");
    };
    assert!(message.contains(words), "{message}");
}

macro_rules! refused {
    ($($name:ident: $how:ident($text:expr) at $source:literal says $words:literal;)*) => {$(
        #[test]
        fn $name() {
            assert_refused(&$how($text), $words);
        }
    )*};
}

include!("tests/refused.rs");

#[test]
fn methods_are_refused_by_their_names() {
    for (names, words) in [
        ("to_string to_owned as_str", "use numbers"),
        ("as_ptr as_mut_ptr", "RawMut"),
    ] {
        for name in names.split_whitespace() {
            assert_refused(&body(&format!("let a = x.first().{name}();")), words);
        }
    }
    let with_closures = "fill_with flat_map filter_map skip_while map_while scan inspect sort_by sort_by_key sort_unstable_by \
        sort_unstable_by_key binary_search_by partition_point";
    for name in with_closures.split_whitespace() {
        let refusals = body(&format!("let a = x.iter().{name}(|a| a);"));
        assert_refused(&refusals, "write a `for` loop");
        // Of a user's type it may be anything.
        for own in [
            "x.iter()",
            "pair",
            "self",
            "pair.first",
            "made(n)",
            "n.min(3)",
        ] {
            for argument in ["n", "|a| a"] {
                if (own, argument) != ("x.iter()", "|a| a") {
                    assert_eq!(
                        body(&format!("let a = {own}.{name}({argument});")),
                        [""; 0],
                        "{own}.{name}"
                    );
                }
            }
        }
    }
}

#[test]
fn methods_of_a_users_type_have_any_name() {
    for name in ["unwrap", "expect", "ok", "checked_add", "overflowing_mul"] {
        for own in ["pair", "self", "pair.first", "made(n)"] {
            assert_eq!(
                body(&format!("let a = {own}.{name}(n);")),
                [""; 0],
                "{own}.{name}"
            );
        }
    }
}

#[test]
fn all_refusals_of_a_body_come_at_once() {
    assert_eq!(body("let a = \"text\"; panic!(\"no\");").len(), 2);
}

#[test]
fn what_is_accepted_has_no_refusals() {
    let accepted = [
        "for (i, y) in y.each() { *y += x[i]; }",
        "for (i, y) in y.each() { let y = [x[i], *y]; let a = y[0] + y[1]; }",
        "let f = |a: u32, b| a + b; let c = f(1, n);",
        "'outer: loop { loop { break 'outer; } }",
        "let a = match n { 0 => 1, 1..=5 | 7 => 2, b if b > 3 => 3, _ => 4 };",
        "let (a, mut b) = (n, n as f32); b += std::f32::consts::PI; (b, _) = (1.0, 2); (_, (b, _)) = parts(n);",
        "assert!(n > 3, \"too few\"); debug_assert!(n > 3);",
        "print!(\"{} of {n} {{\", 3u32); println!();",
        "const LIMIT: u32 = 3; let a = n.min(LIMIT).rotate_left(3);",
    ];
    for statements in accepted {
        assert_eq!(body(statements), [""; 0], "{statements}");
    }
}

#[test]
fn barriers_are_refused_only_where_it_is_certain() {
    let accepted = [
        // Conditions that are the same for all, or may be.
        "if n > 3 { acc.sync_block_threads().await; }",
        "if acc.index(Grid, Blocks)[0] == 0 { acc.sync_block_threads().await; }",
        "if acc.extent(Block, Threads)[0] > 3 { acc.sync_block_threads().await; }",
        "if acc.lane() > 3 && n > 2 { acc.sync_block_threads().await; }",
        "if x[acc.lane() as usize] > 3.0 { acc.sync_block_threads().await; }",
        "if unsafe { acc.assume_uniform(acc.lane() > 3) } { acc.sync_block_threads().await; }",
        "if acc.warp_any(acc.lane() > 3).await { acc.warp_all(true).await; }",
        "for i in acc.uniform_elements(9) { acc.sync_block_threads().await; }",
        "if acc.thread_index()[0] / acc.warp_size() as usize == 0 { acc.warp_all(true).await; }",
        // Another name, or another value.
        "let mut t = acc.lane(); t = 3; if t > 3 { acc.sync_block_threads().await; }",
        "let t = acc.lane(); { let t = 3; if t > 3 { acc.sync_block_threads().await; } }",
        "{ let n = acc.lane(); } if n > 3 { acc.sync_block_threads().await; }",
        // Threads that have left are met again, or were never there.
        "if acc.lane() > 3 { y.each(); } acc.sync_block_threads().await;",
        "loop { if acc.lane() > 3 { break; } y.each(); } acc.sync_block_threads().await;",
        "loop { acc.sync_block_threads().await; if acc.lane() > 3 { continue; } y.each(); }",
        "if acc.lane() > 3 { loop { break; } 'a: { break 'a; } 'b: loop { loop { continue 'b; } } } acc.sync_block_threads().await;",
        "if n > 3 { if acc.lane() > 3 { return; } } else { acc.sync_block_threads().await; }",
        // A function that may not wait.
        "if acc.lane() > 3 { other(acc).await; }",
    ];
    for statements in accepted {
        assert_eq!(waits(statements), [""; 0], "{statements}");
    }
}

#[test]
fn the_native_function_is_the_users() {
    let source = "fn k(acc: &impl Accelerator<1>, n: u32) { let a = n; }";
    let item = syn::parse_str(source).unwrap();
    let written = crate::kernel::expand(&Options::default(), item).unwrap();
    let native: syn::ItemFn = syn::parse_str(source).unwrap();
    let block = native.block.to_token_stream().to_string();
    assert!(written.to_string().contains(&block), "{written}");
}

/// Or they are compiled for the oldest processor, wherever no optimiser across crates is at hand.
#[test]
fn device_functions_are_inlined_unless_told_otherwise() {
    let inlined = |source: &str| {
        let item = syn::parse_str(source).unwrap();
        let written = crate::device::expand(&Options::default(), item).unwrap();
        written.to_string().matches("# [inline (always)]").count()
    };
    for (source, count) in [
        ("fn f(n: u32) -> u32 { n }", 1),
        ("#[inline] fn f(n: u32) -> u32 { n }", 0),
        ("#[cold] fn f(n: u32) -> u32 { n }", 0),
        (
            "trait F { fn f(n: u32) -> u32 { n } fn g(n: u32) -> u32; }",
            1,
        ),
        (
            "impl S { fn f(n: u32) -> u32 { n } fn g(self) -> u32 { 3 } }",
            2,
        ),
        ("impl F for S { fn f(n: u32) -> u32 { n } }", 1),
        (
            "impl Add for S { type Output = S; fn add(self, other: Self) -> S { other } }",
            1,
        ),
    ] {
        assert_eq!(inlined(source), count, "{source}");
    }
}

/// The variables that loops of a kernel with a barrier are given as their own, in order.
fn own_variables(statements: &str) -> Vec<String> {
    let source = format!(
        "async fn k(acc: &impl BlockAccelerator<1>, mut n: u32, #[shared(9)] mut t: SharedWrite<u32>) {{
            let mut a = 0; let mut b = 0; let c = 0; let mut late;
            late = 0; {statements} acc.sync_block_threads().await;
        }}"
    );
    let item = syn::parse_str(&source).unwrap();
    let written = crate::kernel::expand(&Options::default(), item).unwrap();
    let written = written.to_string();
    let own = written.split("let mut ").filter_map(|rest| {
        let (name, value) = rest.split_once(';')?.0.split_once(" = ")?;
        (name == value.trim()).then(|| name.to_owned())
    });
    own.collect()
}

#[test]
fn loops_without_await_have_their_own_variables() {
    for (statements, own) in [
        ("for i in 0..n { a += i; }", &["a"][..]),
        ("while n > 0 { n -= 1; (a, b) = (b, n); }", &["a", "b", "n"]),
        ("if c > 0 { for i in 0..n { a = i; } }", &["a"]),
        ("loop { while a < 3 { a += 1; break; } break; }", &["a"]),
        (
            "'o: for i in 0..n { for j in 0..n { a += j; continue 'o; } }",
            &["a"],
        ),
        (
            "for i in 0..n { for j in 0..n { a += j; } acc.sync_block_threads().await; }",
            &["a"],
        ),
        // Nothing is assigned as a whole, or it is bound there.
        ("for i in 0..n { t.own()[0] += i; }", &[]),
        ("for i in 0..n { let mut a = i; a += 1; b = a; }", &["b"]),
        // Without a value yet, or perhaps moved.
        ("for i in 0..n { late += i; }", &[]),
        ("for i in 0..n { t = other(); } t = acc.sync(t).await;", &[]),
        // A namesake that cannot be assigned.
        (
            "{ let a = &mut b; } for i in 0..n { a += i; b += i; }",
            &["b"],
        ),
        // Loops that are left at other places.
        ("for i in 0..n { a += i; if a > 9 { return; } }", &[]),
        (
            "'o: loop { for i in 0..n { a += i; acc.sync_block_threads().await; break 'o; } }",
            &[],
        ),
        ("'o: loop { for i in 0..n { a += i; break 'o; } }", &[]),
        ("for i in 0..n { a += i; assert!(a > 3); }", &[]),
    ] {
        assert_eq!(own_variables(statements), own, "{statements}");
    }
}

/// In how many of a kernel's phases threads go side by side.
fn phases_of_lanes(statements: &str) -> usize {
    let source = format!(
        "async fn k(
            acc: &impl BlockAccelerator<2>, n: usize, x: &[f32], view: GlobalRef<f32, 2>, y: OwnElements<f32, 2>,
            #[shared(256)] mut a: SharedWrite<f32>, #[shared(256)] mut b: SharedWrite<f32>,
        ) {{
            let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);
            let at = acc.index(Grid, Threads)[1];
            let b = acc.sync(b).await;
            let mut sum = 0.0_f32.exp();
            for k in at..2 * n {{ y.each(); }}
            {statements}
            acc.sync_block_threads().await;
            for (_, y) in y.each() {{ *y = sum; }}
        }}"
    );
    let item = syn::parse_str(&source).unwrap();
    let written = crate::kernel::expand(&Options::default(), item).unwrap();
    let written = written.to_string();
    assert!(written.contains("run_phases"), "{statements}");
    // Each asks for itself.
    written.matches("'__fits : {").count()
}

#[test]
fn neighbours_go_side_by_side() {
    for statements in [
        "for k in 0..n { sum += b[i * 16 + k] * b[k * 16 + j]; }",
        "for k in 0..n { for l in k_of(n)..3 { sum += x[k + l + at] * view[[k, j]]; } }",
        "for k in 0..n { let place = k * n + 3; if place + j < n { sum += x[place + j]; } else { sum -= 1.0; } }",
        "for k in 0..n { sum = if at >= n { view[[i, at - 1]].sqrt() } else { b[3] }; }",
        "for k in 0..n { sum += x[k as usize]; }",
        "for k in 0..n { let (above, below) = (k + 3, k + j); sum += x[below] * x[above]; }",
        "acc.sync_block_threads().await; a.own()[0] = sum + x[at]; a.own()[0] += x[n];",
        // Raw arrays.
        "let a = a.into_raw(); unsafe { a.write(i * 16 + j, sum + a.read(j + n)) };",
        "let r = a.into_raw(); if j < n { unsafe { r.write(j, r.read(j) + r.read(j + n)); r.write(n, 0.0); } }",
        "let r = a.into_raw(); for k in 0..n { sum += unsafe { r.read(i * 16 + k) } * unsafe { r.read(r.len() + j) }; }",
    ] {
        assert_eq!(phases_of_lanes(statements), 1, "{statements}");
    }
    for statements in [
        // Elements that are neither the same nor the next.
        "for k in 0..n { sum += x[k + 2 * j]; }",
        "for k in 0..n { sum += x[i + j + at]; }",
        "for k in 0..n { sum += view[[j, k]]; }",
        "for k in 0..n { sum += x[n - k]; }",
        "for k in 0..n { sum += x[n - j]; }",
        "for k in 0..n { sum += x[(k + j) % n]; }",
        "for k in 0..n { sum += x[k as u8 as usize]; }",
        "for k in 0..n { sum += x[sum as usize]; }",
        // Conditions that may come and go.
        "for k in 0..n { if k < j { sum += 1.0; } }",
        "for k in 0..n { if k != n { sum += x[j]; } }",
        "for k in 0..n { if x[k] < sum { sum += 1.0; } }",
        // Rounds that are not the same for all, or that say something else than their range.
        "for k in 0..j { sum += x[k]; }",
        "for k in (0..n).rev() { sum += x[k]; }",
        "for k in 0..=n { sum += x[k]; }",
        "for mut k in 0..n { k += 1; sum += x[k]; }",
        "for k in 0..n { sum += x[k]; if n == 3 { break; } }",
        "for sum in 0..n { a_function(x[sum]); }",
        // Names that hide others.
        "for k in 0..n { let x = [1.0, 2.0]; sum += x[k]; }",
        "for k in 0..n { let b = [1.0, 2.0]; sum += b[k]; }",
        "for k in 0..n { let j = k * 2; sum += x[at + j]; }",
        "for k in 0..n { let acc = n; sum += x[k]; }",
        "for k in 0..n { let k = k + 1; sum += x[k]; }",
        "for k in 0..n { for l in 0..k { sum += x[l]; } }",
        "for acc in 0..n { sum += x[acc]; }",
        // Memory that is written, or may be.
        "for k in 0..n { a.own()[k] = x[k]; }",
        "for k in 0..n { sum += a.own()[0] + total(b); }",
        "for k in 0..n { sum += total(&x[k..]); }",
        // Elements of raw arrays that are neither the same nor the next, and what more may be done
        // to such an array.
        "let r = a.into_raw(); for k in 0..n { sum += unsafe { r.read(k + 2 * j) }; }",
        "let r = a.into_raw(); for k in 0..n { unsafe { r.write(k - j, 0.0) }; }",
        "let r = a.into_raw(); for k in 0..n { unsafe { let s = r; sum += s.read(k) }; }",
        "let r = a.into_raw(); for k in 0..n { sum += unsafe { r.slice(0..k) }[0]; }",
    ] {
        assert_eq!(phases_of_lanes(statements), 0, "{statements}");
    }
}

/// True if a kernel with this in its body is run phase by phase.
fn is_in_phases(statements: &str) -> bool {
    let source = format!(
        "async fn k(
            acc: &impl BlockAccelerator<1>, n: usize, x: &[f32], y: RawMut<f32>,
            #[shared(256)] a: SharedWrite<f32>, #[shared(n)] mut b: SharedWrite<f32>,
        ) {{
            let t = acc.index(Block, Threads)[0];
            {statements}
            acc.sync_block_threads().await;
            y.write(t, x[t]);
        }}"
    );
    let item = syn::parse_str(&source).unwrap();
    let written = crate::kernel::expand(&Options::default(), item).unwrap();
    written.to_string().contains("run_phases")
}

#[test]
fn what_all_threads_have_is_seen_where_it_is_bound() {
    let halves = "while half > 1 { acc.sync_block_threads().await; half /= 2; }";
    for bound in [
        "let (thread, threads) = (acc.index(Block, Threads)[0], acc.extent(Block, Threads)[0]); let mut half = threads;",
        "let (thread, mut half) = (acc.index(Block, Threads)[0], acc.extent(Block, Threads)[0]);",
        "let (thread, (mut half, _)): (usize, (usize, usize)) = (t, (n, t + 1));",
        "let (threads, (v, mut half)) = ((n), (x[t], n.min(9)));",
        "let [threads] = acc.extent(Block, Threads).components(); let mut half = threads;",
        "let [mut half, other] = [n, n + 1];",
        "let (from, to) = part_of(n, 3); let mut half = to - from;",
        "let Range { start, end } = range_of(n); let mut half = end - start;",
        "let Wrapped(mut half) = wrapped(n);",
        "let mut half = if n > 64 { 64 } else if n > 3 { n } else { 3 };",
        "let mut half = match n { 0 => 1, 1..=9 => n, _ if x.len() > 3 => { x.len() } _ => 9 };",
    ] {
        assert!(is_in_phases(&format!("{bound} {halves}")), "{bound}");
    }
    for statements in [
        "if let Some(mut half) = half_of(n) { while half > 1 { acc.sync_block_threads().await; half /= 2; } }",
        "if n > 3 && let Pair { of: [p, q], .. } = pair_of(n) && p > q { acc.sync_block_threads().await; }",
        "while let Some(k) = next_of(n) { acc.sync_block_threads().await; y.write(t, k as f32); }",
    ] {
        assert!(is_in_phases(statements), "{statements}");
    }
    for statements in [
        "let (mut half, threads) = (acc.index(Block, Threads)[0], acc.extent(Block, Threads)[0]);",
        "let [mut half, other] = [n, t];",
        "let (from, to) = part_of(n, t); let mut half = to - from;",
        "let mut half = if t > 64 { 64 } else { n };",
        "let mut half = match n { 0 => t, _ => 9 };",
        "let mut half = match n { k => k, };",
        // What a later part names would be another variable.
        "let half = t; { let (half, mut k) = (n, half); }",
    ] {
        let statements = format!("{statements} {halves}");
        assert!(!is_in_phases(&statements), "{statements}");
    }
    for statements in [
        "if let Some(k) = half_of(t) { acc.sync_block_threads().await; }",
        "if let Some(mut k) = half_of(n) { k = t; while k > 1 { acc.sync_block_threads().await; } }",
        "if let Some(t) = half_of(n) { acc.sync_block_threads().await; }",
    ] {
        assert!(!is_in_phases(statements), "{statements}");
    }
}

#[test]
fn raw_arrays_are_of_the_block() {
    for statements in [
        "let r = a.into_raw(); r.write(t, 1.0); acc.sync_block_threads().await; let v = r.read(r.len() - 1); acc.sync_block_threads().await; r.write(t, v);",
        "a.own()[0] = 1.0; let a = a.into_raw(); let m = a.len(); acc.sync_block_threads().await; a.write(m - 1, 2.0);",
        "let (a, r): (SharedRaw<f32>, SharedRaw<f32>) = (a.into_raw(), b.into_raw()); let s = r; s.write(t, a.read(n));",
        "let (mut p, mut q) = (a.into_raw(), b.into_raw()); for k in 0..n { p.write(t, q.read(k)); acc.sync_block_threads().await; (p, q) = (q, p); }",
        "let (mut p, mut q) = (a.into_raw(), b.into_raw()); while n > 1 { acc.sync_block_threads().await; std::mem::swap(&mut p, &mut q); q.write(t, 1.0); }",
        "let (p, q) = (a.into_raw(), b.into_raw()); for k in 0..n { let (r, s) = if k % 2 == 0 { (p, q) } else { (q, p) }; r.write(t, s.read(k)); acc.sync_block_threads().await; }",
        "let mut p = a.into_raw(); let q = b.into_raw(); if n > 2 { acc.sync_block_threads().await; p = if n > 3 { q } else { p }; } p.write(t, 1.0);",
        "if n > 2 { let r = a.into_raw(); acc.sync_block_threads().await; r.write(t, 1.0); } else { let r = a.into_raw(); r.write(t, 2.0); }",
        // A length that is kept, as it is another array's later.
        "let (mut p, mut q) = (a.into_raw(), b.into_raw()); let m = p.len(); acc.sync_block_threads().await; (p, q) = (q, p); acc.sync_block_threads().await; p.write(m, 1.0);",
        // Of all threads or none.
        "let (p, k) = (a.into_raw(), t); acc.sync_block_threads().await; p.write(k, 1.0);",
        "if n == 3 { return; } for k in 0..n { acc.sync_block_threads().await; if k == x.len() { if n > 3 { return; } } }",
    ] {
        assert!(is_in_phases(statements), "{statements}");
    }
    for statements in [
        // By some threads.
        "let (mut p, mut q) = (a.into_raw(), b.into_raw()); if t == 0 { (p, q) = (q, p); } p.write(t, 1.0);",
        "let (mut p, mut q) = (a.into_raw(), b.into_raw()); let r = if t > 2 { p } else { q }; acc.sync_block_threads().await; r.write(t, 1.0);",
        "let (mut p, q) = (a.into_raw(), b.into_raw()); changed(&mut p); p.write(t, 1.0);",
        "let (mut p, q) = (a.into_raw(), b.into_raw()); p.clone_from(&q); p.write(t, 1.0);",
        "if t == n { return; }",
        // A name of two arrays, of which a phase would see one.
        "let m = a.len(); let (a, b) = (b.into_raw(), a.into_raw()); acc.sync_block_threads().await; a.write(m, b.read(t));",
        "if n > 2 { let a = a.into_raw(); a.write(t, 1.0); acc.sync_block_threads().await; }",
        // More than the array.
        "let p = Some(a.into_raw()); acc.sync_block_threads().await; p.unwrap().write(t, 1.0);",
        "let p = a.into_raw(); { let p = t; f(p); } acc.sync_block_threads().await; p.write(t, 1.0);",
        // Swapped before it is raw.
        "std::mem::swap(&mut a, &mut b); let (a, b) = (a.into_raw(), b.into_raw()); a.write(t, b.read(n));",
    ] {
        assert!(!is_in_phases(statements), "{statements}");
    }
}

#[test]
fn another_path_is_taken() {
    let options: Options = syn::parse_str("crate = some::path").unwrap();
    let item = syn::parse_str("fn f(n: u32) -> u32 { n }").unwrap();
    let written = crate::device::expand(&options, item).unwrap().to_string();
    assert!(written.contains("some :: path :: __macro") && !written.contains(":: quipu ::"));
    for refused in [
        "other",
        "other = 1",
        "crate = some::path min_blocks = 1",
        "min_blocks = 2",
        "max_block_threads = 1, max_block_threads = 2",
    ] {
        assert!(syn::parse_str::<Options>(refused).is_err(), "{refused}");
    }
}

/// The number of versions of this loop in the native form of a kernel; zero if the loop is not in
/// pieces.
fn versions(looped: &str) -> usize {
    let source = format!(
        "fn k(acc: &impl Accelerator<1>, n: usize, x: &[f32], z: GlobalRef<f32, 2>, mut y: OwnElements<f32>) {{ {looped} }}"
    );
    let item = syn::parse_str(&source).unwrap();
    let written = crate::kernel::expand(&Options::default(), item).unwrap();
    written.to_string().matches("let __piece =").count()
}

#[test]
fn loops_are_run_in_pieces_where_it_is_worth_it() {
    for (looped, expected) in [
        (
            "for (i, y) in y.each() { *y = if i == 0 { 0.0 } else { x[i - 1] }; }",
            1,
        ),
        ("for (i, y) in y.each() { if i < n { *y = x[i]; } }", 2),
        (
            "for (i, y) in y.each() { if n != i && i >= 3 { *y = x[i + 1]; } }",
            2,
        ),
        (
            "for (i, y) in y.each() { let j = i + n; *y = x[j.min(n - 1)]; }",
            1,
        ),
        (
            "for (i, y) in y.each() { let (left, right) = (i, i + 1); *y = x[left] + x[right]; }",
            1,
        ),
        (
            "for (_, y) in y.rows() { for (k, y) in y.iter_mut().enumerate() { *y = z[[n, k]]; } }",
            1,
        ),
        ("if n > 1 { for (i, y) in y.each() { *y = x[i + 1]; } }", 1),
        // Code that compilers see through anyway.
        ("for (i, y) in y.each() { *y = x[i]; }", 0),
        // No number of neighbours, or one that changes meanwhile.
        ("for (_, y) in y.each() { *y = x[n + 1]; }", 0),
        ("for (i, y) in y.each() { *y = x[2 * i]; }", 0),
        ("for (i, y) in y.each() { *y = x[n - i]; }", 0),
        (
            "let mut k = 0; for (i, y) in y.each() { *y = x[i + k]; k += 1; }",
            0,
        ),
        ("for (i, y) in y.each() { let i = i + 1; *y = x[i]; }", 0),
        (
            "let x = n; for (i, y) in y.each() { if i as f32 > 2.0 { *y = 1.0; } }",
            0,
        ),
        // Bodies that are left otherwise than at their end, or have loops of their own.
        (
            "for (i, y) in y.each() { if i == n { break; } *y = x[i + 1]; }",
            0,
        ),
        (
            "for (i, y) in y.each() { for k in 0..n { *y += x[i + k]; } }",
            0,
        ),
    ] {
        assert_eq!(versions(looped), expected, "{looped}");
    }
}
