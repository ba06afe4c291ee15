//! A printer from outside: kernels that it prints, run by Python, give the same results as
//! natively. Without Python only their text is looked at.

use kernel_python::Python;
use quipu::kernel::print::{self, IndexWidth, Kernels, Options, PrintError};
use quipu::prelude::*;
use std::process::Command;

fn options() -> Options {
    Options::new(Python, IndexWidth::Bits64)
}

/// Python's output for a printed kernel and lines behind it. `None` where there is no Python.
fn shown(source: &str, then: &str) -> Option<String> {
    let program = format!("{source}\n\n{then}\n");
    let output = Command::new("python3").args(["-c", &program]).output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no python3");
        return None;
    };
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}\n{program}");
    Some(
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned(),
    )
}

#[device]
fn mixed(a: u32, b: u32) -> u32 {
    (a ^ b).wrapping_mul(2_654_435_761) >> 7
}

/// Integers that wrap, loops with all of their jumps, a function.
#[kernel]
fn integers(_acc: &impl Accelerator<1>, n: u32, x: &[i32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut sum = 0_u32;
        for k in 0..n {
            if k % 3 == 1 {
                continue;
            }
            if k > 9 {
                break;
            }
            sum = sum.wrapping_mul(65_537).wrapping_add(mixed(x[i] as u32, k));
        }
        *y = sum ^ (x[i] / 3 % 5) as u32 ^ !(i as u32);
    }
}

/// Floats of 32 bits, rounded after each step.
#[kernel]
fn floats(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = a * x[i] + (x[i] / 3.0).sqrt() - x[i].abs() / (i as f32);
        *y += (x[i] * 1e9) as i32 as f32;
    }
}

#[kernel]
#[allow(dead_code, reason = "its source alone is asked for")]
fn structs(_acc: &impl Accelerator<1>, mut y: OwnElements<[u32; 2]>) {
    for (_, y) in y.each() {
        y[1] = 3;
    }
}

#[kernel]
#[allow(dead_code, reason = "its source alone is asked for")]
async fn waits(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>) {
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = 1;
    }
}

#[test]
fn runs_integers() {
    let printed = print::module::<integers, _>()
        .unwrap()
        .print(Python, &options())
        .unwrap();
    assert_eq!((printed.language, &*printed.entry), ("python", "integers"));
    let x = [7, -7, i32::MIN, i32::MAX, 0];
    let mut y = [0; 5];
    let context = Platform::new().unwrap().context().unwrap();
    let queue = context.queue(&context.fastest()).unwrap();
    let (of_x, mut of_y) = (context.buffer(&x).unwrap(), context.buffer(&y).unwrap());
    queue.launch(5, integers(12, &of_x, &mut of_y)).unwrap();
    y.copy_from_slice(&queue.read(&of_y).unwrap().wait().unwrap());
    let then = format!("y = [0] * 5\nintegers(12, {x:?}, y)\nprint(y)");
    if let Some(shown) = shown(&printed.source, &then) {
        assert_eq!(shown, format!("{y:?}"));
    }
}

#[test]
fn runs_floats() {
    let printed = print::module::<floats, _>()
        .unwrap()
        .print(Python, &options())
        .unwrap();
    let x = [0.1_f32, 7.3, 1e-3, 2.0, 12345.678];
    let context = Platform::new().unwrap().context().unwrap();
    let queue = context.queue(&context.fastest()).unwrap();
    let (of_x, mut of_y) = (context.buffer(&x).unwrap(), context.allocate(5).unwrap());
    queue.launch(5, floats(0.3_f32, &of_x, &mut of_y)).unwrap();
    let y = queue.read(&of_y).unwrap().wait().unwrap();
    let bits: Vec<u32> = y.iter().map(|y: &f32| y.to_bits()).collect();
    let then = format!(
        "x = [single(x) for x in {x:?}]\ny = [0.0] * 5\nfloats(single(0.3), x, y)\n\
         print([struct.unpack('I', struct.pack('f', y))[0] for y in y])"
    );
    if let Some(shown) = shown(&printed.source, &then) {
        assert_eq!(shown, format!("{bits:?}"));
    }
}

#[test]
fn a_printer_is_registered_by_its_language() {
    let print = |kernels: &Kernels| kernels.command(["print", "floats", "--dialect", "python"]);
    let kernels = Kernels::new().with::<floats, _>();
    let error = print(&kernels).unwrap_err().to_string();
    assert!(error.contains("'--dialect python' is no option"), "{error}");
    assert!(error.contains("--dialect c99|opencl|cuda]"), "{error}");
    // Twice is as once.
    let kernels = kernels.printer(Python).printer(Python);
    assert!(print(&kernels).unwrap().contains("def floats(a, x, y):"));
    let error = kernels.command(["show"]).unwrap_err().to_string();
    assert!(
        error.contains("--dialect c99|opencl|cuda|python]"),
        "{error}"
    );
}

#[test]
fn what_it_has_no_words_for_is_refused_in_the_kernels_line() {
    let line = |mark: &str| {
        let mut lines = include_str!("printers.rs").lines();
        lines.position(|line| line.contains(mark)).unwrap() as u32 + 1
    };
    let refused = |module: print::Module, words: &str, at: Option<u32>| {
        let error = module.print(Python, &options()).unwrap_err();
        let PrintError::Unsupported { what, location, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(what, words);
        assert!(
            at.is_none() || location.map(|place| place.line) == at,
            "{error}"
        );
        assert!(
            error.to_string().starts_with("Python cannot do "),
            "{error}"
        );
    };
    refused(
        print::module::<structs, _>().unwrap(),
        "arrays",
        Some(line("y[1] = 3;")),
    );
    refused(
        print::module::<waits, _>().unwrap(),
        "barriers of a block",
        None,
    );
}
