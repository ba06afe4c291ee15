//! Every example runs.

macro_rules! examples {
    ($($name:ident: $path:literal),* $(,)?) => {$(
        #[expect(unreachable_pub, reason = "an example's `main` is public so that it can be called here")]
        #[path = $path]
        mod $name;

        #[test]
        fn $name() {
            $name::main().unwrap();
        }
    )*};
}

examples! {
    hello: "../examples/01_hello.rs",
    saxpy: "../examples/02_saxpy.rs",
    futures: "../examples/03_futures.rs",
    tokio: "../examples/04_tokio.rs",
    parts_and_views: "../examples/05_parts_and_views.rs",
    host_memory: "../examples/06_host_memory.rs",
    stencil: "../examples/07_stencil.rs",
    generic: "../examples/08_generic.rs",
    histogram: "../examples/09_histogram.rs",
    blocks: "../examples/10_blocks.rs",
    matrix_product: "../examples/11_matrix_product.rs",
    driver: "../examples/12_driver.rs",
    recorded_graph: "../examples/13_recorded_graph.rs",
    native_opencl: "../examples/14_native_opencl.rs",
    serve: "../examples/15_serve.rs",
    printer: "../examples/16_printer.rs",
}

/// Those with kernels, in the modes that the guide to kernels lists.
#[test]
fn they_run_in_every_mode() {
    let modes = ["native", "lockstep:32", "threads"];
    let with_kernels = [
        "saxpy",
        "stencil",
        "generic",
        "histogram",
        "blocks",
        "matrix_product",
        "recorded_graph",
    ];
    for (mode, check) in modes.iter().flat_map(|mode| [(mode, "0"), (mode, "1")]) {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .arg("--exact")
            .args(with_kernels)
            .env("QUIPU_EXECUTION", mode)
            .env("QUIPU_CHECK", check)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{mode}, {check}: {text}");
        assert!(text.contains("7 passed"), "{text}");
    }
}

#[test]
fn all_of_them_are_listed_and_a_page_at_most() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 72, "{path:?} is longer than a page");
        count += 1;
    }
    let here = include_str!("examples.rs")
        .matches(": \"../examples/")
        .count();
    assert_eq!(count, here);
}
