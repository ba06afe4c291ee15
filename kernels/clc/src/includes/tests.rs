use super::*;
use std::fs::{create_dir, write};

/// Lines of the result that are neither empty nor say where they come from.
fn code(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("#line"))
        .collect()
}

fn headers(of: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = of.iter();
    pairs
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

fn with_headers(source: &str, of: &[(&str, &str)]) -> String {
    with_includes(source, "", &headers(of)).unwrap()
}

#[test]
fn files_of_folders_are_found_as_compilers_find_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    create_dir(path("one")).unwrap();
    create_dir(path("two two")).unwrap();
    write(
        path("one/a.h"),
        "#include \"near.h\"\n#include <far.h>\nint a;",
    )
    .unwrap();
    write(path("one/near.h"), "int near;").unwrap();
    write(path("two two/near.h"), "int wrong;").unwrap();
    write(path("two two/far.h"), "int far;\0").unwrap();
    let options = format!(
        "-DX -I {} -I\"{}\"",
        path("one").display(),
        path("two two").display()
    );
    let text = with_includes("#include \"a.h\"\nkernel void k() {}\n", &options, &[]).unwrap();
    assert_eq!(
        code(&text),
        ["int near;", "int far;", "int a;", "kernel void k() {}"]
    );
    let a = path("one/a.h");
    assert!(
        text.starts_with(&format!("#line 1 \"{}\"\n", a.display())),
        "{text}"
    );
    assert!(
        text.contains(&format!("int far;\n#line 3 \"{}\"\nint a;", a.display())),
        "{text}"
    );
    assert!(
        text.contains("int a;\n#line 2 \"program\"\nkernel"),
        "{text}"
    );
    // A name that is a path; one that is no file.
    let absolute = format!(
        "#include \"{}\"\n#include \"{}\"",
        path("one/near.h").display(),
        path("one").display()
    );
    let text = with_includes(&absolute, "", &[]).unwrap();
    assert_eq!(code(&text)[0], "int near;");
    assert!(code(&text)[1].starts_with("#include"), "{text}");
}

#[test]
fn headers_of_the_program_come_first() {
    let text = with_headers(
        "#include \"folder/a.h\"\n#include <./b.h>\n#include \"missing.h\"\n#include MACRO\n",
        &[
            ("folder/a.h", "#include \"b.h\"\nint a;"),
            ("folder/b.h", "int near_b;"),
            ("b.h", "int b;"),
        ],
    );
    assert_eq!(
        code(&text),
        [
            "int near_b;",
            "int a;",
            "int b;",
            "#include \"missing.h\"",
            "#include MACRO"
        ]
    );
}

#[test]
fn a_file_that_counts_once_is_left_out_the_second_time() {
    let guarded = "/* A */\n#ifndef A_H\n#define A_H\n#include \"b.h\"\nint a;\n#endif // A_H\n";
    let once = "#pragma once\n#include \"a.h\"\nint b;\n";
    let files = [("a.h", guarded), ("b.h", once)];
    let text = with_headers(
        "#include \"a.h\"\n#include \"b.h\"\n#include \"a.h\"\n",
        &files,
    );
    assert_eq!(text.matches("int a;").count(), 1, "{text}");
    assert_eq!(text.matches("int b;").count(), 1, "{text}");
    assert!(
        !text.contains("#include") && !text.contains("#pragma"),
        "{text}"
    );
    // The first may be skipped.
    let text = with_headers(
        "#if X\n#include \"b.h\"\n#endif\n#include \"b.h\"\n",
        &files,
    );
    assert_eq!(text.matches("int b;").count(), 2, "{text}");
    assert_eq!(text.matches("#ifndef QUIPU_INCLUDED_").count(), 2, "{text}");
    // Nor is what a file includes that has the guard of another.
    let other = [
        ("a.h", guarded),
        ("b.h", "#define A_H\n"),
        ("c.h", "#ifndef A_H\n#define A_H\n#include \"d.h\"\n#endif"),
        ("d.h", "#pragma once\nint d;\n"),
    ];
    let text = with_headers(
        "#include \"b.h\"\n#include \"c.h\"\n#include \"d.h\"\n",
        &other,
    );
    assert_eq!(text.matches("int d;").count(), 2, "{text}");
    // What undefines the guard wants the file again.
    let text = with_headers("#include \"a.h\"\n#undef A_H\n#include \"a.h\"\n", &files);
    assert_eq!(text.matches("int a;").count(), 2, "{text}");
    // Guards that are not around all of it are none.
    for open in [
        "#ifndef A_H\n#define A_H\n#endif\nint a;\n",
        "#ifndef A_H\n#define A_H\n#else\nint a;\n#endif\n",
        "#ifndef A_H\n#define B_H\nint a;\n#endif\n",
        "int a;\n#ifndef A_H\n#define A_H\n#endif\n",
        "#ifndef A_H\n#define A_H\nint a;\n#endif\n#include \"c.h\"",
    ] {
        let text = with_headers("#include \"a.h\"\n#include \"a.h\"", &[("a.h", open)]);
        assert_eq!(text.matches("int a;").count(), 2, "{text}");
    }
}

#[test]
fn comments_that_reach_into_a_directive_stay_whole() {
    let text = with_headers(
        "/* begins\n*/ #include \"a.h\" /* goes\non */ int b;\n",
        &[("a.h", "int a;")],
    );
    assert_eq!(
        text,
        "/* begins\n*/\n#line 1 \"a.h\"\nint a;\n#line 2 \"program\"\n/*\non */ int b;\n"
    );
    let twice = "#include \"a.h\"\n/* begins\n*/ #include \"a.h\" /* goes\non */ int b;\n";
    let text = with_headers(twice, &[("a.h", "#pragma once\nint a;")]);
    assert!(text.ends_with("/* begins\n*//*\non */ int b;\n"), "{text}");
}

#[test]
fn what_includes_itself_without_end_is_bounded() {
    // Left to the compiler, which may skip it.
    let text = with_headers("#include \"a.h\"", &[("a.h", "int a;\n#include \"a.h\"\n")]);
    assert_eq!(code(&text), ["int a;", "#include \"a.h\""]);
    let chain: Vec<_> = (0..=MOST_NESTED)
        .map(|at| (format!("{at}.h"), format!("#include \"{}.h\"\n", at + 1)))
        .collect();
    let error = with_includes("#include \"0.h\"", "", &chain).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("199.h:1: error: more than 200 files"),
        "{error}"
    );
    let long = "x".repeat(1 << 16);
    let doubled: Vec<_> = (0..60)
        .map(|at| {
            let next = format!("#include \"{}.h\"\n", at + 1);
            (format!("{at}.h"), format!("{long}\n{next}{next}"))
        })
        .collect();
    let error = with_includes("#include \"0.h\"", "", &doubled).unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
}

#[test]
fn a_file_that_a_macro_names_is_found_if_it_is_one() {
    let files = [("a.h", "int a;"), ("b.h", "int b;")];
    let of = |source: &str, options: &str| {
        let text = with_includes(source, options, &headers(&files)).unwrap();
        let lines = code(&text).into_iter();
        let kept: Vec<&str> = lines
            .filter(|line| line.starts_with("int") || line.starts_with("#include"))
            .collect();
        kept.join(" ")
    };
    for (source, options, expected) in [
        ("#define F \"a.h\"\n#include F\n", "", "int a;"),
        (
            "#define F <a.h>\n#include F // a\n#undef F\n#define F \"b.h\"\n#include F\n",
            "",
            "int a; int b;",
        ),
        ("#include F\n", "-DF='\"b.h\"'", "int b;"),
        ("#include F\n", "-D F=<b.h>", "int b;"),
        // What is given by an option is what counts.
        (
            "#ifndef F\n#define F \"a.h\"\n#endif\n#include F\n",
            "-DF=<b.h>",
            "int b;",
        ),
        (
            "#ifndef F\n#define F \"a.h\"\n#endif\n#include F\n",
            "",
            "int a;",
        ),
        // Only the compiler knows which.
        (
            "#if X\n#define F <a.h>\n#else\n#define F <b.h>\n#endif\n#include F\n",
            "",
            "#include F",
        ),
        (
            "#define F <a.h>\n#if X\n#undef F\n#define F <b.h>\n#endif\n#include F\n",
            "",
            "#include F",
        ),
        (
            "#define F <a.h>\n#if X\n#define F <b.h>\n#endif\n#include F\n",
            "",
            "#include F",
        ),
        (
            "#ifdef X\n#define F <b.h>\n#endif\n#include F\n",
            "-DF=<a.h>",
            "#include F",
        ),
        (
            "#ifndef F\n#if X\n#define F <b.h>\n#endif\n#endif\n#include F\n",
            "-DF=<a.h> -UF",
            "int b;",
        ),
        ("#define F G\n#include F\n", "", "#include F"),
    ] {
        assert_eq!(of(source, options), expected, "{source} {options}");
    }
}

#[test]
fn a_text_may_ask_whether_a_file_is_there() {
    let source =
        "#if __has_include(\"a.h\")\n#include \"a.h\"\n#elif __has_include(<c.h>)\n#endif\n";
    let text = with_headers(source, &[("a.h", "int a;")]);
    assert_eq!(
        code(&text),
        ["#if 1", "int a;", "#elif __has_include(<c.h>)", "#endif"]
    );
}
