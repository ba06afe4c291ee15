//! The kernels that are timed as the guide's are the guide's.

/// A text without what separates its words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn kernels_that_are_timed_are_those_of_the_guide() {
    let guide = words(include_str!("../../../../docs/kernels.md"));
    let example = words(include_str!(
        "../../../../frontends/rust/examples/08_generic.rs"
    ));
    let timed = include_str!("../../examples/against_rayon/guide_kernels.rs");
    // Items end where a line begins with a brace, or are a line.
    let mut item = String::new();
    let mut items = Vec::new();
    for line in timed.lines().filter(|line| !line.starts_with("// ")) {
        item.push_str(line);
        item.push('\n');
        if line == "}" || line.starts_with("const ") {
            items.push(words(&std::mem::take(&mut item)));
        }
    }
    assert_eq!(words(&item), "");
    assert_eq!(
        items
            .iter()
            .filter(|item| item.contains("#[kernel]"))
            .count(),
        11
    );
    for item in items {
        assert!(
            guide.contains(&item) || example.contains(&item),
            "neither `docs/kernels.md` nor `08_generic.rs` has this any more:\n{item}"
        );
    }
}
