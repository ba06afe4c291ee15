//! `quipu run`: kernels in OpenCL C on arrays in files.

// Helpers of tests are tests: unwrap is their assertion too.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with files, and the command in it; none on a machine without a compiler.
struct Place(TempDir);

impl Place {
    fn new(kernels: &str) -> Option<Self> {
        if !quipu_clc::is_available() {
            assert!(
                std::env::var_os("QUIPU_TEST_CLC").is_none(),
                "there is no LLVM, and QUIPU_TEST_CLC wants it"
            );
            eprintln!(
                "\n*** NOT TESTED: OpenCL C on processors. There is no LLVM of a version from 18 to 22.\n"
            );
            return None;
        }
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.path("k.cl"), kernels).unwrap();
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes an array as NumPy does.
    fn write<T: Number>(&self, name: &str, shape: &str, numbers: &[T]) {
        let header = format!(
            "{{'descr': '<{}', 'fortran_order': False, 'shape': ({shape}), }}",
            T::DESCR
        );
        let header = format!("{header:<117}\n");
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(numbers.iter().flat_map(|number| number.bytes()));
        std::fs::write(self.path(name), file).unwrap();
    }

    /// Reads the numbers of an array, and the text of its shape.
    fn read<T: Number>(&self, name: &str) -> (String, Vec<T>) {
        let file = std::fs::read(self.path(name)).unwrap();
        let length = usize::from(u16::from_le_bytes([file[8], file[9]]));
        let header = String::from_utf8(file[10..10 + length].to_vec()).unwrap();
        assert!(header.contains(&format!("'<{}'", T::DESCR)), "{header}");
        let shape = header.split('(').nth(1).unwrap().split(')').next().unwrap();
        let numbers = file[10 + length..].chunks_exact(4).map(T::of).collect();
        (shape.to_owned(), numbers)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command
            .arg("run")
            .arg("k.cl")
            .args(arguments.split_whitespace());
        command.current_dir(self.0.path());
        command.env("QUIPU_CACHE", self.path("cache"));
        command.env("QUIPU_OPENCL", "off").env("QUIPU_CUDA", "off");
        command
            .env_remove("QUIPU_LOG")
            .env_remove("QUIPU_TRACE")
            .env_remove("QUIPU_NODES");
        command
    }

    fn run(&self, arguments: &str) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The one line that a failure says.
    fn fails(&self, arguments: &str) -> String {
        let output = self.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        said(&output)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

trait Number: Copy {
    const DESCR: &'static str;
    fn bytes(self) -> [u8; 4];
    fn of(bytes: &[u8]) -> Self;
}

impl Number for f32 {
    const DESCR: &'static str = "f4";
    fn bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }
    fn of(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().unwrap())
    }
}

impl Number for i32 {
    const DESCR: &'static str = "i4";
    fn bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }
    fn of(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().unwrap())
    }
}

const SAXPY: &str = "kernel void saxpy(float a, global const float *x, global float *y) {
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
kernel void other(local float *part, global int *out) { out[get_global_id(0)] = 0; }
";

#[test]
fn saxpy_on_every_device_that_runs_native_code() {
    let Some(place) = Place::new(SAXPY) else {
        return;
    };
    let x: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    place.write("x.npy", "1048576,", &x);
    for device in ["cpu", "serial", "sim"] {
        let y: Vec<f32> = (0..1 << 20).map(|i| (i % 100) as f32).collect();
        place.write("y.npy", "1048576,", &y);
        let arguments = "saxpy --global 1Mi --arg 2.0 --in x.npy --inout y.npy --time --device";
        let text = place.run(&format!("{arguments} {device}"));
        assert!(text.contains("median of 1"), "{text}");
        let wanted: Vec<f32> = (0..1 << 20)
            .map(|i| (i % 100) as f32 + 2.0 * i as f32)
            .collect();
        assert_eq!(
            place.read("y.npy"),
            ("1048576,".to_owned(), wanted),
            "{device}"
        );
    }
}

#[test]
fn values_and_arrays_of_half() {
    let Some(place) = Place::new(
        "kernel void f(half a, half2 b, global const half *x, global half *y) {
            size_t i = get_global_id(0); y[i] = a * x[i] + (i % 2 ? b.x : b.y);
        }",
    ) else {
        return;
    };
    if !quipu_clc::has_half() {
        println!("NOT TESTED: half arithmetic: this processor has none");
        return;
    }
    let header = "{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }";
    let header = format!("{header:<117}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    // 1, -2, 0.5 and 1024.
    let x = [0x3c00_u16, 0xc000, 0x3800, 0x6400];
    file.extend(x.iter().flat_map(|number| number.to_le_bytes()));
    std::fs::write(place.path("x.npy"), file).unwrap();
    place.run("f --global 4 --arg 1.5 --arg 0.25,-1 --in x.npy --out y.npy");
    let made = std::fs::read(place.path("y.npy")).unwrap();
    assert!(String::from_utf8_lossy(&made).contains("'<f2'"));
    // 0.5, -2.75, -0.25 and 1536.25. The last one is rounded to 1536.
    let wanted = [0x3800_u16, 0xc180, 0xb400, 0x6600].map(u16::to_le_bytes);
    assert_eq!(made[made.len() - 8..], wanted.concat());
}

#[test]
fn kernels_with_barriers() {
    let Some(place) = Place::new(
        "kernel void sums(global const float *x, global float *sums, local float *part) {
            uint l = get_local_id(0);
            part[l] = x[get_global_id(0)];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint s = get_local_size(0) / 2; s > 0; s /= 2) {
                if (l < s) part[l] += part[l + s];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            if (l == 0) sums[get_group_id(0)] = part[0];
        }
        kernel void turns(global int *x, int n) {
            local int shared[64];
            uint l = get_local_id(0);
            shared[l] = x[get_global_id(0)];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = 0; i < n; i++) {
                int next = shared[(l + 1) % 64];
                if (i % 2) {
                    barrier(CLK_LOCAL_MEM_FENCE);
                    shared[l] = next + i;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            x[get_global_id(0)] = shared[l];
        }
        #define TILE 16
        kernel void product(int n, global const float *a, global const float *b, global float *c) {
            local float ta[TILE][TILE], tb[TILE][TILE];
            int lx = get_local_id(0), ly = get_local_id(1), x = get_global_id(0), y = get_global_id(1);
            float sum = 0;
            for (int t = 0; t < n; t += TILE) {
                ta[ly][lx] = a[y * n + t + lx];
                tb[ly][lx] = b[(t + ly) * n + x];
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int k = 0; k < TILE; k++) sum += ta[ly][k] * tb[k][lx];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            c[y * n + x] = sum;
        }",
    ) else {
        return;
    };
    let x: Vec<f32> = (0..4096).map(|i| (i % 7) as f32).collect();
    place.write("x.npy", "64,64", &x);
    place.run(
        "sums --global 4Ki --local 256 --in x.npy --out sums.npy --shape 4,4 --local-bytes 1Ki",
    );
    let wanted: Vec<f32> = x.chunks(256).map(|part| part.iter().sum()).collect();
    assert_eq!(place.read("sums.npy"), ("4, 4".to_owned(), wanted));

    let x: Vec<i32> = (0..128).collect();
    place.write("t.npy", "128,", &x);
    place.run("turns --global 128 --local 64 --inout t.npy --arg 5");
    let wanted = x.chunks(64).flat_map(|group| {
        let mut shared = group.to_vec();
        for i in (1..5).step_by(2) {
            shared.rotate_left(1);
            shared.iter_mut().for_each(|it| *it += i);
        }
        shared
    });
    assert_eq!(place.read::<i32>("t.npy").1, wanted.collect::<Vec<_>>());

    let n = 64;
    let a: Vec<f32> = (0..n * n).map(|i| (i % 5) as f32).collect();
    place.write("a.npy", "64,64", &a);
    place.run("product --global 64,64 --local 16,16 --arg 64 --in a.npy --in a.npy --out c.npy");
    let (shape, c) = place.read::<f32>("c.npy");
    assert_eq!(shape, "64, 64");
    for y in 0..n {
        for x in 0..n {
            let wanted: f32 = (0..n).map(|k| a[y * n + k] * a[k * n + x]).sum();
            assert_eq!(c[y * n + x], wanted, "{x} {y}");
        }
    }
}

/// Kernels with vectors, whose elements are not those of their neighbours' arrays.
const VECTORS: &str = "kernel void scale(float by, global const float4 *x, global float4 *y) {
    size_t i = get_global_id(0);
    y[i] = x[i] * by;
}
kernel void numbers(global float4 *y) {
    size_t i = get_global_id(0);
    y[i] = (float4)(i, i + 1, i + 2, i + 3);
}
kernel void widen(global const char *x, global float2 *y) {
    size_t i = get_global_id(0);
    y[i] = (float2)(x[i], -x[i]);
}
kernel void halves(global const float4 *x, global float2 *low, global float *all) {
    size_t i = get_global_id(0);
    low[i] = x[i].lo;
    vstore4(x[i], i, all);
}
kernel void move(global float3 *places) { places[get_global_id(0)] += 1.0f; }
typedef struct { int a; char b; } pair;
kernel void swap(global const pair *x, global pair *y) {
    y[get_global_id(0)] = x[get_global_size(0) - 1 - get_global_id(0)];
}
kernel void first(global const int *n, global int *out) { out[get_global_id(0)] = *n; }
";

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn outputs_have_room_for_their_elements() {
    let Some(place) = Place::new(VECTORS) else {
        return;
    };
    let x: Vec<f32> = (0..16384).map(|i| i as f32).collect();
    let doubled: Vec<f32> = x.iter().map(|x| x * 2.0).collect();
    std::fs::write(place.path("x.raw"), bytes_of(&x)).unwrap();
    std::fs::write(place.path("other.raw"), bytes_of(&x)).unwrap();
    // Like an input, like another file, and as many as there are work-items.
    for shape in ["--like x.raw", "--like other.raw", "--shape 4096,4", ""] {
        let arguments = format!("scale --global 4096 --arg 2 --in x.raw --out y.raw {shape}");
        place.run(&arguments);
        assert!(
            std::fs::read(place.path("y.raw")).unwrap() == bytes_of(&doubled),
            "{shape}"
        );
        place.run(&arguments.replace("y.raw", "y.npy"));
        assert!(
            place.read("y.npy") == ("4096, 4".to_owned(), doubled.clone()),
            "{shape}"
        );
    }
    // Four vectors, and not one of four numbers.
    let wanted: Vec<f32> = (0..4).flat_map(|i| (i..i + 4).map(|x| x as f32)).collect();
    for shape in ["", "--shape 4"] {
        place.run(&format!("numbers --global 4 --out four.npy {shape}"));
        assert_eq!(place.read("four.npy"), ("4, 4".to_owned(), wanted.clone()));
    }
    // As many elements, and not as many bytes.
    std::fs::write(place.path("bytes.raw"), [1, 2, 3]).unwrap();
    place.run("widen --global 3 --in bytes.raw --out wide.npy --like bytes.raw");
    let wanted = vec![1.0, -1.0, 2.0, -2.0, 3.0, -3.0];
    assert_eq!(place.read::<f32>("wide.npy"), ("3, 2".to_owned(), wanted));
    place.write("v.npy", "2,4", &x[..8]);
    place.run("halves --global 2 --in v.npy --out low.npy --out all.npy");
    let low = vec![0.0, 1.0, 4.0, 5.0];
    assert_eq!(place.read::<f32>("low.npy"), ("2, 2".to_owned(), low));
    assert_eq!(place.read("all.npy"), ("2, 4".to_owned(), x[..8].to_vec()));
    let pairs = [[1_u8; 8], [2; 8], [3; 8]];
    std::fs::write(place.path("pairs.raw"), pairs.concat()).unwrap();
    place.run("swap --global 3 --in pairs.raw --out swapped.raw --like pairs.raw");
    let swapped = std::fs::read(place.path("swapped.raw")).unwrap();
    let fields = swapped.chunks(8).map(|pair| &pair[..5]);
    assert!(fields.eq([[3_u8; 5], [2; 5], [1; 5]]));
    // One number is no shape.
    place.write("n.npy", "", &[7_i32]);
    place.run("first --global 5 --in n.npy --out out.npy");
    assert_eq!(place.read("out.npy"), ("5,".to_owned(), vec![7_i32; 5]));
}

#[test]
fn arrays_that_are_no_whole_elements_are_told() {
    let Some(place) = Place::new(VECTORS) else {
        return;
    };
    std::fs::write(place.path("odd.raw"), [0; 40]).unwrap();
    std::fs::write(place.path("even.raw"), [0; 64]).unwrap();
    place.write("three.npy", "4,3", &[1.0_f32; 12]);
    place.write("row.npy", "12,", &[1.0_f32; 12]);
    place.write("i.npy", "4,", &[1_i32; 4]);
    let header = |order, fortran, shape| {
        let header =
            format!("{{'descr': '{order}f4', 'fortran_order': {fortran}, 'shape': ({shape}), }}");
        format!("{header:<117}\n")
    };
    for (name, header) in [
        ("big.npy", header('>', "False", "4, 4")),
        ("columns.npy", header('<', "True", "4, 4")),
    ] {
        let file = [
            &b"\x93NUMPY\x01\x00\x76\x00"[..],
            header.as_bytes(),
            &[0; 64],
        ]
        .concat();
        std::fs::write(place.path(name), file).unwrap();
    }
    for (arguments, wanted) in [
        (
            "scale --global 2 --arg 1 --in odd.raw --out y.raw",
            "`float4* x`, takes elements of 16 bytes, and odd.raw has 40 bytes",
        ),
        (
            "scale --global 2 --arg 1 --in even.raw --out y.raw --like odd.raw",
            "`float4* y`, takes elements of 16 bytes, and odd.raw has 40 bytes; say how many",
        ),
        (
            "scale --global 3 --arg 1 --in three.npy --out y.npy",
            "room for 4 numbers, and the last axis of three.npy has 3; store it with .reshape(-1, 4)",
        ),
        (
            "scale --global 4 --arg 1 --in i.npy --out y.npy",
            "elements of float32, and i.npy has int32",
        ),
        (
            "scale --global 4 --arg 1 --in big.npy --out y.npy",
            "big-endian",
        ),
        (
            "scale --global 4 --arg 1 --in columns.npy --out y.npy",
            "column-major",
        ),
        (
            "move --global 4 --inout three.npy",
            "room for a fourth, and the last axis of three.npy has 3; store it with np.pad(",
        ),
        (
            "move --global 3 --inout row.npy",
            "the last axis of row.npy has 12; store it with .reshape(-1, 4)",
        ),
        (
            "swap --global 3 --in even.raw --out y.npy --like even.raw",
            "elements of a size that is not known here",
        ),
    ] {
        let said = place.fails(arguments);
        assert!(said.contains(wanted), "{arguments}: {said}");
    }
}

#[test]
#[cfg(unix)]
fn a_kernel_that_leaves_an_array_is_named_when_it_is_checked() {
    let Some(place) = Place::new(
        "kernel void shift(int by, global const float *x, global float *y) {
            int i = get_global_id(0);
            y[i] = x[i + by];
        }
        kernel void far(global float4 *y) { y[get_global_id(0) * 1000] = 1.0f; }",
    ) else {
        return;
    };
    place.write("x.npy", "100,", &[1.5_f32; 100]);
    let checked = |arguments: &str| {
        let mut command = place.command(arguments);
        command.env("QUIPU_CHECK", "1").output().unwrap()
    };
    for device in ["cpu", "serial"] {
        let shift = |by: i32, rest: &str| {
            let arguments = format!("shift --global 100 --arg {by} --in x.npy --out y.npy");
            checked(&format!("{arguments} {rest} --device {device}"))
        };
        let output = shift(0, "");
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(place.read::<f32>("y.npy").1, [1.5; 100]);
        for (output, wanted) in [
            (
                shift(1, ""),
                "`float* x` of 'shift' has 400 bytes, and the kernel touches byte 400, behind",
            ),
            (
                shift(-2000, ""),
                "`float* x` of 'shift' has 400 bytes, and the kernel touches byte 8000 before",
            ),
            (
                shift(0, "--shape 10"),
                "`float* y` of 'shift' has 40 bytes, and the kernel touches byte ",
            ),
            (
                checked(&format!("far --global 10 --out z.npy --device {device}")),
                "`float4* y` of 'far' has 160 bytes, and the kernel touches byte ",
            ),
        ] {
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(said(&output).contains(wanted), "{}", said(&output));
        }
    }
}

#[test]
fn what_does_not_fit_is_told() {
    let Some(place) = Place::new(SAXPY) else {
        return;
    };
    place.write("x.npy", "4,", &[1.0_f32; 4]);
    place.write("i.npy", "4,", &[1_i32; 4]);
    std::fs::write(place.path("bad.npy"), "no array").unwrap();
    let rest = "--in x.npy --inout x.npy";
    for (arguments, wanted) in [
        (
            "dot --global 4".to_owned(),
            "k.cl has no kernel 'dot'; it has: saxpy, other",
        ),
        (
            "saxpy --global 4 --arg 2.0".to_owned(),
            "takes 3 arguments, and 1 is given; its parameters: float a, float* x, float* y",
        ),
        (
            format!("saxpy --global 4 --arg two {rest}"),
            "parameter 1 of 'saxpy', `float a`, cannot be 'two'",
        ),
        (
            "saxpy --global 4 --in x.npy --in x.npy --inout x.npy".to_owned(),
            "`float a`, is a value; give it by --arg",
        ),
        (
            "saxpy --global 4 --arg 2 --arg 3 --inout x.npy".to_owned(),
            "`float* x`, is an array; give it by --in",
        ),
        (
            "saxpy --global 4 --arg 2 --in i.npy --inout x.npy".to_owned(),
            "takes elements of float32, and i.npy has int32; store it with .astype(np.float32)",
        ),
        (
            "saxpy --global 4 --arg 2 --in bad.npy --inout x.npy".to_owned(),
            "cannot read bad.npy: it does not begin as NumPy's files do",
        ),
        (
            "saxpy --global 4 --arg 2 --in none.npy --inout x.npy".to_owned(),
            "cannot read none.npy",
        ),
        (
            "other --global 4 --arg 2 --out o.npy".to_owned(),
            "is local memory; say how many bytes it has by --local-bytes",
        ),
        (
            "other --global 4 --local 3 --local-bytes 64 --out o.npy --shape 4".to_owned(),
            "no whole number of work-groups of 3",
        ),
        (
            format!("saxpy --global 4 --arg 2 {rest} --device tpu"),
            "no device is called 'tpu'; there are: cpu:0, ",
        ),
        (
            format!("saxpy --global 4 --arg 2 {rest} --option -fplugin=x"),
            "option '-fplugin=x' is not taken",
        ),
    ] {
        let said = place.fails(&arguments);
        assert!(said.contains(wanted), "{arguments}: {said}");
    }
    let output = place.command("saxpy --global 4Q --arg 2").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("'4Q' is no size"),
        "{}",
        said(&output)
    );

    std::fs::write(
        place.path("k.cl"),
        "kernel void f(global int *x) {\n    x[0] = nothing;\n}",
    )
    .unwrap();
    let said = place.fails("f --global 1 --inout i.npy");
    assert!(
        said.contains("k.cl:2:12: error: use of undeclared identifier 'nothing'"),
        "{said}"
    );
}

#[test]
fn what_is_compiled_is_kept_until_it_is_removed() {
    let Some(place) = Place::new(SAXPY) else {
        return;
    };
    let cache = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command
            .arg("cache")
            .args(arguments)
            .env("QUIPU_CACHE", place.path("cache"));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let count = || files(&place.path("cache/clc"));
    place.write("x.npy", "8,", &[1.0_f32; 8]);
    let arguments = "saxpy --global 8 --arg 2 --in x.npy --inout x.npy";
    place.run(arguments);
    let first = count();
    assert!(first >= 2, "{first}");
    // Another definition is another program; the same is none.
    place.run(arguments);
    assert_eq!(count(), first);
    place.run(&format!("{arguments} --option -DX=1"));
    assert!(count() > first);
    assert!(cache(&[]).contains(&format!("{} compiled programs", count())));
    assert!(cache(&["clear"]).starts_with("removed"));
    assert_eq!(count(), 0);
    place.run(arguments);
    assert_eq!(place.read::<f32>("x.npy").1, [81.0; 8]);
}

#[test]
fn the_cache_of_each_compiler_is_cleared_and_no_other_file() {
    let place = tempfile::tempdir().unwrap();
    let of_kernel = "0123456789abcdef0123456789abcdef.bin";
    for (folder, name) in [
        ("clc", of_kernel),
        ("cuda", of_kernel),
        ("opencl", of_kernel),
        ("opencl", "table.bin"),
        ("notes", of_kernel),
    ] {
        let folder = place.path().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), "eight by").unwrap();
    }
    let cache = |action: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command
            .args(["cache", action])
            .env("QUIPU_CACHE", place.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let counts = || ["clc", "cuda", "opencl", "notes"].map(|name| files(&place.path().join(name)));
    assert!(
        cache("show").starts_with("3 compiled programs, 24 B"),
        "{}",
        cache("show")
    );
    assert_eq!(counts(), [1, 1, 2, 1]);
    assert!(cache("clear").starts_with("removed 3 compiled programs"));
    assert_eq!(counts(), [0, 0, 1, 1]);
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// `to[i] = x[i] * constant 3`.
const SCALE: &str = "OpCapability Addresses
    OpCapability Kernel
    OpCapability Int64
    OpMemoryModel Physical64 OpenCL
    OpEntryPoint Kernel %kernel \"scale\" %number
    OpName %x \"x\"
    OpName %to \"to\"
    OpDecorate %number BuiltIn GlobalInvocationId
    OpDecorate %number Constant
    OpDecorate %factor SpecId 3
    %void = OpTypeVoid
    %ulong = OpTypeInt 64 0
    %ulong3 = OpTypeVector %ulong 3
    %float = OpTypeFloat 32
    %input = OpTypePointer Input %ulong3
    %global = OpTypePointer CrossWorkgroup %float
    %type = OpTypeFunction %void %global %global
    %factor = OpSpecConstant %float 2
    %number = OpVariable %input Input
    %kernel = OpFunction %void None %type
    %x = OpFunctionParameter %global
    %to = OpFunctionParameter %global
    %label = OpLabel
    %numbers = OpLoad %ulong3 %number Aligned 32
    %i = OpCompositeExtract %ulong %numbers 0
    %from = OpInBoundsPtrAccessChain %global %x %i
    %was = OpLoad %float %from Aligned 4
    %is = OpFMul %float %was %factor
    %into = OpInBoundsPtrAccessChain %global %to %i
    OpStore %into %is Aligned 4
    OpReturn
    OpFunctionEnd";

#[test]
fn a_module_of_spirv_runs_with_its_constants() {
    let Some(place) = Place::new(SCALE) else {
        return;
    };
    // A module of SPIR-V is known by its first bytes, whatever the file is called.
    let assembled = Command::new("spirv-as")
        .args(["--target-env", "spv1.2", "k.cl", "-o", "k.cl"])
        .current_dir(place.path(""))
        .status();
    if !(assembled.is_ok_and(|status| status.success()) && quipu_clc::takes_spirv()) {
        assert!(
            std::env::var_os("QUIPU_TEST_SPIRV").is_none(),
            "there is no spirv-as, or no llvm-spirv, and QUIPU_TEST_SPIRV wants them"
        );
        eprintln!(
            "\n*** NOT TESTED: SPIR-V on processors. There is no spirv-as, or no llvm-spirv.\n"
        );
        return;
    }
    place.write("x.npy", "4,", &[1.0_f32, -2.0, 0.5, 4.0]);
    let on_files = "--global 4 --in x.npy --out to.npy --like x.npy";
    for device in ["cpu", "serial"] {
        place.run(&format!("scale {on_files} --device {device}"));
        assert_eq!(place.read::<f32>("to.npy").1, [2.0, -4.0, 1.0, 8.0]);
        place.run(&format!(
            "scale {on_files} --device {device} --constant 3=-0.5"
        ));
        assert_eq!(place.read::<f32>("to.npy").1, [-0.5, 1.0, -0.25, -2.0]);
    }
    let said = place.fails(&format!("scale {on_files} --constant 4=1"));
    assert!(said.contains("no specialisation constant 4"), "{said}");
    let said = place.fails(&format!("scale {on_files} --constant 3=much"));
    assert!(said.contains("a float of 32 bits"), "{said}");
    let whole = std::fs::read(place.path("k.cl")).unwrap();
    std::fs::write(place.path("k.cl"), &whole[..whole.len() - 20]).unwrap();
    let said = place.fails(&format!("scale {on_files}"));
    assert!(said.contains("cut off"), "{said}");
    // Of a text there are none.
    std::fs::write(place.path("k.cl"), SAXPY).unwrap();
    let said = place.fails(&format!("saxpy {on_files} --constant 3=1"));
    assert!(said.contains("-D NAME=VALUE"), "{said}");
}
