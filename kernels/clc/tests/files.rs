//! Files that texts include: how they are found, and the dependence of kept code on them.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Program, Unit};
use std::fs::write;
use std::path::Path;
use support::{Launch, program};

/// The result of the kernel `k` of a program.
fn written(program: &Program) -> i32 {
    let memory = [0];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&memory);
    launch.run(program, "k");
    // SAFETY: the launch has written there; it is over.
    unsafe { std::ptr::from_ref(&memory[0]).read_volatile() }
}

/// True if there is a compiler.
fn is_there() -> bool {
    program("kernel void k() {}").is_some()
}

#[test]
fn a_file_that_is_no_utf8_keeps_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let text = b"#define VALUE '\xe9' // caf\xe9\n";
    write(folder.path().join("latin.h"), text).unwrap();
    let text = "#include <latin.h>\nkernel void k(global int *x) { *x = (uchar)VALUE; }";
    let options = format!("-I {}", folder.path().display());
    // As other devices compile it.
    let whole = quipu_clc::with_includes(text, &options, &[]).unwrap();
    assert!(whole.contains("#define VALUE '\\351'"), "{whole}");
    for text in [text, &whole] {
        if let Some(program) = is_there().then(|| Program::new(text, &options).unwrap()) {
            assert_eq!(written(&program), 0xe9);
        }
    }
}

#[test]
fn a_program_is_read_anew_where_a_file_has_changed_that_it_includes() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = format!("-I {}", folder.path().display());
    for condition in [
        "#if 1",
        "#if __OPENCL_VERSION__ >= 300",
        "#ifdef cl_khr_fp16",
        "#ifdef cl_khr_fp64",
        "#if __OPENCL_C_VERSION__ == 120",
        "#ifdef __IMAGE_SUPPORT__",
    ] {
        let text = format!(
            "{condition}\n#include <value.h>\n#else\n#define VALUE -1\n#endif\nkernel void k(global int *x) {{ *x = VALUE; }}"
        );
        for value in [1, 2] {
            write(
                folder.path().join("value.h"),
                format!("#define VALUE {value}\n"),
            )
            .unwrap();
            let read = Program::new(&text, &options).unwrap();
            assert_eq!(written(&read), value, "{condition}");
            let unit = Unit::new(&text, &options, &[]).unwrap();
            assert_eq!(written(&Program::of(&unit).unwrap()), value, "{condition}");
        }
    }
    let without_images = format!("{options} {}", quipu_clc::Need::Images.absent());
    let text = "#ifndef __IMAGE_SUPPORT__\n#include <value.h>\n#endif\nkernel void k(global int *x) { *x = VALUE; }";
    for value in [3, 4] {
        write(
            folder.path().join("value.h"),
            format!("#define VALUE {value}\n"),
        )
        .unwrap();
        assert_eq!(
            written(&Program::new(text, &without_images).unwrap()),
            value
        );
    }
}

#[test]
fn functions_are_static_in_each_version() {
    if !is_there() {
        return;
    }
    let text = "static int f(int a) { return a + 1; } kernel void k(global int *x) { *x = f(1); }";
    for version in ["CL1.0", "CL1.1", "CL1.2", "CL2.2", "CL3.0"] {
        let options = format!("-cl-std={version} -Wall -Werror");
        assert_eq!(
            written(&Program::new(text, &options).unwrap()),
            2,
            "{version}"
        );
        let error = Program::new("\nint d(;", &options).unwrap_err().to_string();
        assert!(error.starts_with("program:2:"), "{error}");
    }
}

#[test]
fn headers_that_are_passed_come_before_files() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let within = folder.path().join("within");
    std::fs::create_dir(&within).unwrap();
    for place in [folder.path(), &within] {
        write(place.join("value.h"), "#define VALUE -1\n").unwrap();
    }
    // The working folder is looked at where a text names a file in quotes. No other test here names
    // one that it has.
    let before = std::env::current_dir().unwrap();
    std::env::set_current_dir(folder.path()).unwrap();
    let header = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let options = format!("-I {}", folder.path().display());
    let kernel = "\nkernel void k(global int *x) { *x = VALUE; }";
    for value in [1, 2] {
        let defined = format!("#define VALUE {value}\n");
        for (include, headers) in [
            ("#include \"value.h\"", vec![header("value.h", &defined)]),
            ("#include <value.h>", vec![header("value.h", &defined)]),
            (
                "#include \"within/value.h\"",
                vec![header("within/value.h", &defined)],
            ),
            (
                "#include \"other/a.h\"",
                vec![
                    header("other/a.h", "#include \"value.h\"\n"),
                    header("value.h", &defined),
                ],
            ),
        ] {
            let text = format!("{include}{kernel}");
            let unit = Unit::new(&text, &options, &headers).unwrap();
            assert_eq!(written(&Program::of(&unit).unwrap()), value, "{include}");
        }
    }
    // One that is not passed is found where it is without them.
    let others = [header("other.h", "")];
    let unit = Unit::new(&format!("#include \"value.h\"{kernel}"), "", &others);
    std::env::set_current_dir(before).unwrap();
    assert_eq!(written(&Program::of(&unit.unwrap()).unwrap()), -1);
}

#[test]
fn a_message_says_where_in_the_text_or_in_a_header_it_is() {
    if !is_there() {
        return;
    }
    let headers = [("a.h".to_owned(), "\nint b(int *c;\n".to_owned())];
    let error = Unit::new("\n#include \"a.h\"\n\nint d(;\n", "", &headers).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("program:4:"), "{message}");
    let file = Path::new("headers").join("a.h");
    assert!(
        message.contains(&format!("{}:2:", file.display())),
        "{message}"
    );
}
