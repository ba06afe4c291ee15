//! The compiler's time limit for a text.

mod support;

use quipu_clc::{Program, limit_compiler};

#[test]
fn a_text_that_takes_too_long_is_told_how_long_it_may_take() {
    if support::program("kernel void k(global int *x) { x[0] = 1; }").is_none() {
        return;
    }
    // A million statements.
    let mut text = "#define S0 x[0] = x[0] * 3 + 1;\n".to_owned();
    for level in 1..=20 {
        let within = level - 1;
        text.push_str(&format!("#define S{level} S{within} S{within}\n"));
    }
    text.push_str(&format!(
        "// {}\nkernel void k(global int *x) {{ S20 }}",
        std::process::id()
    ));
    limit_compiler(1);
    let said = Program::new(&text, "")
        .map(drop)
        .map_err(|error| error.to_string());
    let said = said.expect_err("it takes longer");
    assert!(
        said.contains("it may take 1 s of a processor's time, and 8 GiB of memory"),
        "{said}"
    );
}
