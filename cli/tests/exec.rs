//! Programs for OpenCL that know nothing of Quipu, here and on a node.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]
#![cfg(target_os = "linux")]

#[path = "exec/nodes.rs"]
mod nodes;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn quipu(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(arguments).env("QUIPU_HOME", home);
    for variable in [
        "QUIPU_LOG",
        "QUIPU_TRACE",
        "QUIPU_NODES",
        "QUIPU_CPU_PIN",
        "QUIPU_OPENCL_DEVICES",
        "QUIPU_OPENCL_VENDORS",
        "QUIPU_CLC",
    ] {
        command.env_remove(variable);
    }
    command.env("QUIPU_CUDA", "off");
    command.env("QUIPU_OPENCL", "off");
    command.env("QUIPU_CPU_WORKERS", "2");
    command.env("QUIPU_CACHE", cache());
    command
}

/// The folder where compiled programs are kept; not in a folder of keys, which has to be its
/// owner's alone.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-cache")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// True if there is what the tests need; says so if there is not.
fn can_be_tested() -> bool {
    let headers = Path::new("/usr/include/CL/cl.h").is_file();
    let loader = system_loader().is_some();
    if headers && loader && quipu_clc::is_available() {
        return true;
    }
    assert!(
        std::env::var_os("QUIPU_TEST_OPENCL_PROGRAMS").is_none(),
        "QUIPU_TEST_OPENCL_PROGRAMS wants OpenCL's headers, a loader and LLVM"
    );
    println!(
        "NOT TESTED: programs for OpenCL: no headers (Debian: opencl-headers), loader (ocl-icd-libopencl1) or LLVM"
    );
    false
}

/// The system's loader.
fn system_loader() -> Option<PathBuf> {
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ];
    let mut files = folders
        .iter()
        .map(|folder| Path::new(folder).join("libOpenCL.so.1"));
    files.find(|file| file.exists())
}

/// Compiles the vector addition, for a loader's library in a folder.
fn compile(to: &Path, loader_folder: &Path) -> PathBuf {
    compile_program("vector_addition", to, loader_folder)
}

/// Compiles a C program, for a loader's library in a folder.
fn compile_program(name: &str, to: &Path, loader_folder: &Path) -> PathBuf {
    let program = to.join(name);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exec");
    let text = folder.join(name).with_extension("c");
    let mut library = std::ffi::OsString::from("-L");
    library.push(loader_folder);
    let status = Command::new("cc")
        .args(["-O1", "-o"])
        .args([&program, &text])
        .arg(library)
        .args(["-l:libOpenCL.so.1", "-Wl,--allow-shlib-undefined"])
        .status();
    assert!(status.unwrap().success());
    program
}

/// The library, as it was built beside this test.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().join("libquipu_opencl.so")
}

#[test]
fn a_c_program_runs_unchanged_on_the_processor() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile(home.path(), loader.parent().unwrap());
    let run = |options: &[&str]| {
        let mut command = quipu(home.path(), &["exec"]);
        let output = command
            .args(options)
            .arg("--")
            .arg(&program)
            .output()
            .unwrap();
        said(&output).lines().count()
    };
    assert_eq!(run(&[]), 1);
    // The serial device is listed when it is named.
    assert_eq!(run(&["--device", "cpu", "--device", "serial"]), 2);
    // Simulated ones are made when they are named.
    assert_eq!(run(&["--device", "sim:1"]), 1);
    assert_eq!(run(&["--device", "cpu", "--device", "sim"]), 3);
}

#[test]
fn a_profile_tells_what_ran_and_leaves_the_status() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let program = compile(home.path(), system_loader().unwrap().parent().unwrap());
    let mut command = quipu(home.path(), &["exec", "--profile", "--"]);
    let output = command.arg(program).output().unwrap();
    assert_eq!(said(&output).lines().count(), 1);
    let table = String::from_utf8_lossy(&output.stderr);
    assert!(table.contains("launch") && table.contains("add"), "{table}");
    // A program that uses no OpenCL, and fails.
    let arguments = ["exec", "--profile", "--", "sh", "-c", "exit 7"];
    let output = quipu(home.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no commands"), "{text}");
}

#[test]
fn a_program_may_change_its_folder_first() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    compile(home.path(), system_loader().unwrap().parent().unwrap());
    std::fs::create_dir(home.path().join("elsewhere")).unwrap();
    // Relative names: of the trace's file, and of the folder that the loader is told.
    let output = quipu(home.path(), &["exec", "--trace", "trace.json", "--"])
        .args(["sh", "-c", "cd elsewhere && exec ../vector_addition"])
        .current_dir(home.path())
        .env("QUIPU_CACHE", "cache")
        .output()
        .unwrap();
    assert_eq!(said(&output).lines().count(), 1);
    let trace = std::fs::read_to_string(home.path().join("trace.json")).unwrap();
    assert!(trace.contains("add"), "{trace}");
    assert!(home.path().join("cache/opencl").is_dir());
}

/// A program that asks for the status of its events until they are over, on simulated devices, on
/// this machine's processor and on that of a node.
#[test]
fn a_program_that_polls_its_events_comes_to_an_end() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("polling", home.path(), loader.parent().unwrap());
    let client = home.path().join("client");
    let _serving = serve(&home.path().join("node"), &client);
    let devices = ["sim:0", "cpu:0", "serial", "box/cpu:0"];
    let named = devices.iter().flat_map(|device| ["--device", device]);
    let mut command = quipu(&client, &["exec"]);
    let output = command.args(named).arg("--").arg(&program).output();
    let output = said(&output.unwrap());
    assert_eq!(output.lines().count(), devices.len(), "{output}");
}

#[test]
fn clinfo_tells_of_the_platform() {
    if !can_be_tested() || Command::new("clinfo").arg("--version").output().is_err() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let output = quipu(home.path(), &["exec", "--", "clinfo"])
        .output()
        .unwrap();
    let output = said(&output);
    assert!(
        output.contains("Quipu") && !output.contains("error -"),
        "{output}"
    );
}

#[test]
fn a_child_of_fork_uses_devices_that_its_parent_has_listed() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("forking", home.path(), loader.parent().unwrap());
    let mut command = quipu(home.path(), &["exec", "--device", "cpu", "--"]);
    let output = said(&command.arg(program).output().unwrap());
    let lines: Vec<&str> = output.lines().collect();
    // A child of a process that has made a context is told, and the parent goes on.
    assert!(
        matches!(lines[..], [first, second, "child: -2", third] if [first, second, third].iter().all(|line| line.starts_with("added on "))),
        "{output}"
    );
}

#[test]
fn the_library_takes_a_loaders_place() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(library(), home.path().join("libOpenCL.so.1")).unwrap();
    let program = compile(home.path(), home.path());
    let mut command = Command::new(&program);
    command
        .env("LD_LIBRARY_PATH", home.path())
        .env("QUIPU_CLC", env!("CARGO_BIN_EXE_quipu"))
        .env("QUIPU_CUDA", "off")
        .env("QUIPU_HOME", home.path())
        .env("QUIPU_CACHE", cache())
        .env_remove("QUIPU_NODES")
        .env_remove("OCL_ICD_VENDORS");
    assert_eq!(said(&command.output().unwrap()).lines().count(), 1);
}

#[test]
fn devices_of_another_platform_join_ours() {
    let pocl = Path::new("/etc/OpenCL/vendors/pocl.icd");
    if !can_be_tested() || !pocl.is_file() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let vendors = home.path().join("vendors/");
    std::fs::create_dir(&vendors).unwrap();
    std::fs::copy(pocl, vendors.join("pocl.icd")).unwrap();
    std::fs::write(vendors.join("quipu.icd"), library().to_str().unwrap()).unwrap();
    let program = compile(home.path(), system_loader().unwrap().parent().unwrap());
    let mut command = Command::new(program);
    command
        .env("OCL_ICD_VENDORS", &vendors)
        .env("QUIPU_OPENCL_DEVICES", "cpu,opencl")
        .env("QUIPU_CLC", env!("CARGO_BIN_EXE_quipu"))
        .env("QUIPU_CUDA", "off")
        .env("QUIPU_HOME", home.path())
        .env("QUIPU_CACHE", cache())
        .env_remove("QUIPU_OPENCL")
        .env_remove("QUIPU_NODES");
    let output = said(&command.output().unwrap());
    // The other platform's own, and both in ours.
    assert_eq!(output.lines().count(), 3, "{output}");
    assert_eq!(output.matches("pthread").count(), 2, "{output}");
    // Under `exec` it is in ours alone.
    let run = |devices: &[&str]| {
        let mut command = quipu(home.path(), &["exec"]);
        let program = home.path().join("vector_addition");
        command.args(devices).arg("--").arg(program);
        command.env_remove("QUIPU_OPENCL");
        command.env("OCL_ICD_VENDORS", pocl);
        said(&command.output().unwrap())
    };
    let output = run(&["--device", "cpu", "--device", "opencl"]);
    assert_eq!(output.lines().count(), 2, "{output}");
    assert_eq!(output.matches("pthread").count(), 1, "{output}");
    // A device for processors is this processor once more: it is not listed unless it is named.
    assert_eq!(run(&[]).lines().count(), 1);
}

#[test]
fn the_library_takes_the_place_of_a_loader_that_may_look_elsewhere() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let [own, text] = ["libOpenCL.so.1", "loader.c"].map(|name| home.path().join(name));
    // A loader that finds no platform wherever it is told to look.
    let finds_none = "int clGetPlatformIDs(unsigned n, void *p, unsigned *count) { return -1001; }";
    std::fs::write(&text, finds_none).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libOpenCL.so.1", "-o"])
        .args([&own, &text])
        .status();
    assert!(status.unwrap().success());
    std::fs::create_dir(home.path().join("library")).unwrap();
    let linked = home.path().join("library/libOpenCL.so.1");
    std::os::unix::fs::symlink(library(), &linked).unwrap();
    let program = compile(home.path(), linked.parent().unwrap());
    let run = |program: &Path| {
        let mut command = quipu(home.path(), &["exec", "--"]);
        command.arg(program).env("LD_LIBRARY_PATH", home.path());
        let output = command.output().unwrap();
        assert_eq!(said(&output).lines().count(), 1);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    run(&program);
    // The system's linker has nothing to say of a program that was linked with a loader whose names
    // have versions.
    let program = compile(home.path(), system_loader().unwrap().parent().unwrap());
    let bytes = std::fs::read(&program).unwrap();
    assert!(bytes.windows(10).any(|part| part == b"OPENCL_1.0"));
    assert_eq!(run(&program), "");
}

/// A node that is ended with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node called `box`, with its keys in the folder `node`, and a client's keys in the folder
/// `client`.
fn serve(node: &Path, client: &Path) -> Serving {
    serve_with(node, client, |_| ())
}

/// The same, of a command that is changed before.
fn serve_with(node: &Path, client: &Path, change: impl FnOnce(&mut Command)) -> Serving {
    let mut command = quipu(
        node,
        &[
            "serve",
            "--address",
            "127.0.0.1:0",
            "--name",
            "box",
            "--invite",
        ],
    );
    change(&mut command);
    let serving = command.stdout(Stdio::piped()).spawn();
    let mut serving = serving.map(Serving).unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let invitation = lines.find_map(|line| {
        let line = line.unwrap();
        let at = line.find("quipu1")?;
        Some(line[at..].split_whitespace().next().unwrap().to_owned())
    });
    said(
        &quipu(client, &["pair", &invitation.unwrap()])
            .output()
            .unwrap(),
    );
    serving
}

#[test]
fn a_c_program_runs_unchanged_on_a_node() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile(home.path(), loader.parent().unwrap());
    let client = home.path().join("client");
    let _serving = serve(&home.path().join("node"), &client);
    let mut command = quipu(&client, &["exec", "--node", "box", "--"]);
    let output = said(&command.arg(&program).output().unwrap());
    assert!(
        output.starts_with("added on ") && output.contains("box"),
        "{output}"
    );
    // Its own device, and that of this machine, in one platform.
    let mut command = quipu(
        &client,
        &[
            "exec",
            "--node",
            "box",
            "--device",
            "cpu:0",
            "--device",
            "box/cpu:0",
            "--",
        ],
    );
    let output = said(&command.arg(&program).output().unwrap());
    assert_eq!(output.lines().count(), 2, "{output}");
}

#[test]
fn a_device_of_a_node_is_named_without_its_node() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let program = compile(home.path(), system_loader().unwrap().parent().unwrap());
    let client = home.path().join("client");
    let _serving = serve(&home.path().join("node"), &client);
    for devices in [
        &["--device", "box/cpu:0"][..],
        &["--device", "box"],
        &["--device", "cpu:0", "--device", "box/cpu:0"],
    ] {
        let mut command = quipu(&client, &["exec"]);
        command.args(devices).arg("--").arg(&program);
        let output = said(&command.output().unwrap());
        assert_eq!(output.lines().count(), devices.len() / 2, "{output}");
        assert_eq!(output.matches(" on box").count(), 1, "{output}");
    }
    let arguments = ["exec", "--device", "attic/cpu:0", "--", "true"];
    let output = quipu(&client, &arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && errors.contains("no node 'attic'"),
        "{errors}"
    );
}

#[test]
fn a_client_without_a_compiler_runs_programs_on_a_node() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let loader = loader.parent().unwrap();
    let addition = compile(home.path(), loader);
    let description = compile_program("description", home.path(), loader);
    let client = home.path().join("client");
    let _serving = serve(&home.path().join("node"), &client);
    let nothing = home.path().join("no-llvm");
    std::fs::create_dir(&nothing).unwrap();
    let run = |has_compiler: bool, arguments: &[&str], program: &Path| {
        let mut command = quipu(&client, arguments);
        command.arg("--").arg(program);
        if !has_compiler {
            // Nothing that was compiled before is found, either.
            command.env("QUIPU_LLVM", &nothing);
            command.env("QUIPU_CACHE", home.path().join("cache"));
        }
        command.output().unwrap()
    };
    let on_node = ["exec", "--node", "box"];
    let added = said(&run(false, &on_node, &addition));
    assert!(added.contains("box"), "{added}");
    // The node says what a compiler here would.
    let [here, there] =
        [true, false].map(|has_compiler| said(&run(has_compiler, &on_node, &description)));
    assert!(
        here.contains("missing") && here.contains("warning: of this text"),
        "{here}"
    );
    for line in [
        "several: 7 arguments",
        "  8 of 20 work-items in 3 sub-groups\n",
        "  20 of 20 work-items in 1 sub-groups\n",
        "float4* in: 119b 11a3 3\n",
        "struct pair pair: 119e 11a3 0\n",
    ] {
        assert!(here.contains(line), "{line} in {here}");
    }
    assert_eq!(
        here.replace(" (node 'box')", ""),
        there.replace(" (node 'box')", "")
    );
    // This machine's processor is of no use without a compiler.
    let output = run(false, &["exec", "--device", "cpu:0"], &addition);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("QUIPU_LLVM"),
        "{errors}"
    );
    // The same of a kernel in a file.
    let [text, numbers] = ["twice.cl", "numbers"].map(|name| home.path().join(name));
    let twice = "kernel void twice(global int *x) { x[get_global_id(0)] *= 2; }";
    std::fs::write(&text, twice).unwrap();
    std::fs::write(&numbers, [1_i32, 2, 3, 4].map(i32::to_ne_bytes).concat()).unwrap();
    let mut command = quipu(&client, &["run"]);
    command.arg(&text);
    command.args(["twice", "--device", "box/cpu:0", "--global", "4", "--inout"]);
    command.arg(&numbers).env("QUIPU_LLVM", &nothing);
    said(&command.output().unwrap());
    let doubled = [2_i32, 4, 6, 8].map(i32::to_ne_bytes).concat();
    assert_eq!(std::fs::read(&numbers).unwrap(), doubled);
}

#[test]
fn kernels_on_a_node_print_here_before_their_commands_are_over() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("printing", home.path(), loader.parent().unwrap());
    let client = home.path().join("client");
    let _serving = serve(&home.path().join("node"), &client);
    let run = |options: &[&str]| {
        let mut command = quipu(&client, &["exec"]);
        command.args(options).arg("--").arg(&program);
        said(&command.output().unwrap())
    };
    let printed = run(&["--node", "box"]);
    // The program's lines stand between those of its kernels.
    for number in 0..50 {
        let lines = format!("enqueued {number}\nitem {number} of 0x2a\nfinished {number}\n");
        assert!(printed.contains(&lines), "{number}: {printed}");
    }
    // Much is neither lost nor mixed.
    let much: Vec<&str> = printed
        .lines()
        .filter(|line| line.starts_with("much"))
        .collect();
    let expected: Vec<String> = (0..20_000).map(|line| format!("much {line}")).collect();
    assert!(much == expected, "{} lines", much.len());
    assert_eq!(printed, run(&["--device", "cpu:0"]));
}

#[test]
fn files_that_a_program_includes_are_the_clients() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("included", home.path(), loader.parent().unwrap());
    let [client, folder, nothing] =
        ["client", "folder", "no-llvm"].map(|name| home.path().join(name));
    for folder in [&folder, &folder.join("include"), &nothing] {
        std::fs::create_dir(folder).unwrap();
    }
    // Relative names: the node runs in another folder.
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("near.h", "#define NEAR 5\n");
    write("include/factor.h", "#pragma once\n#define FACTOR 10\n");
    let scale = "#ifndef SCALE_H\n#define SCALE_H\n#include \"factor.h\"\n#include \"factor.h\"\n\
        int scaled(int x) { return x * FACTOR; }\n#endif\n";
    write("include/scale.h", scale);
    let _serving = serve(&home.path().join("node"), &client);
    let run = |has_compiler: bool| {
        let mut command = quipu(&client, &["exec", "--node", "box", "--"]);
        command.arg(&program).current_dir(&folder);
        if !has_compiler {
            command.env("QUIPU_LLVM", &nothing);
        }
        said(&command.output().unwrap())
    };
    for has_compiler in [true, false] {
        let output = run(has_compiler);
        assert!(output.starts_with("built: 0\n"), "{output}");
        assert!(
            output.contains("box") && output.contains(": 15 25 35 45\n"),
            "{output}"
        );
    }
    // Messages name the file, its line, and that of the text.
    write(
        "include/factor.h",
        "\n#warning of the factor\n#define FACTOR missing\n",
    );
    for has_compiler in [true, false] {
        let output = run(has_compiler);
        assert!(output.starts_with("built: -11\n"), "{output}");
        for part in [
            "include/factor.h:2:2: warning: of the factor",
            "include/scale.h:5:",
            "missing",
        ] {
            assert!(output.contains(part), "{part} in {output}");
        }
    }
}

/// A module of SPIR-V that lacks a function, and one that has it; none without an assembler and a
/// translator.
fn modules(to: &Path) -> Option<[PathBuf; 2]> {
    let has_assembler = Command::new("spirv-as").arg("--version").output().is_ok();
    if !has_assembler || !quipu_clc::takes_spirv() {
        println!("NOT TESTED: SPIR-V: no spirv-as (Debian: spirv-tools) or llvm-spirv");
        return None;
    }
    let part = include_str!("exec/part.spvasm");
    let body = "%given = OpFunctionParameter %uint\n%body = OpLabel\n\
        %double = OpIAdd %uint %given %given\nOpReturnValue %double\n";
    let whole = part
        .replace("OpCapability Linkage\n", "")
        .replace("OpDecorate %twice LinkageAttributes \"twice\" Import\n", "")
        .replace("%given = OpFunctionParameter %uint\n", body);
    let module = |(name, text): (&str, &str)| {
        let [source, module] = ["spvasm", "spv"].map(|end| to.join(name).with_extension(end));
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new("spirv-as");
        command
            .args(["--target-env", "spv1.2", "-o"])
            .args([&module, &source]);
        assert!(command.status().unwrap().success());
        module
    };
    Some([("whole", &whole[..]), ("part", part)].map(module))
}

#[test]
fn a_node_takes_long_names_long_options_and_many_arguments() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("large", home.path(), loader.parent().unwrap());
    let [client, nothing] = ["client", "no-llvm"].map(|name| home.path().join(name));
    std::fs::create_dir(&nothing).unwrap();
    let _serving = serve(&home.path().join("node"), &client);
    let run = |has_compiler: bool, device: &str| {
        let mut command = quipu(&client, &["exec", "--device", device, "--"]);
        command.arg(&program);
        if !has_compiler {
            command.env("QUIPU_LLVM", &nothing);
        }
        said(&command.output().unwrap())
    };
    let here = run(true, "cpu:0");
    assert_eq!(here, "bytes of arguments: 4096\nname: 0\nsum: 899\n");
    for has_compiler in [true, false] {
        assert_eq!(run(has_compiler, "box/cpu:0"), here);
    }
}

/// The questions of `clGetDeviceInfo` that have another answer on a node's processor than on a
/// processor of the program's own machine, and the reasons.
const OTHER_ANSWERS: [(u32, &str); 17] = [
    (
        0x1029,
        "EXECUTION_CAPABILITIES: no function of the program runs there",
    ),
    (0x102b, "NAME: it says which node the device is of"),
    (0x1030, "EXTENSIONS: none for pointers that both sides know"),
    (
        0x1035,
        "HOST_UNIFIED_MEMORY: the memory is not this machine's",
    ),
    (
        0x1043,
        "PARTITION_MAX_SUB_DEVICES: a node's device has no parts",
    ),
    (0x1044, "PARTITION_PROPERTIES: as above"),
    (
        0x104d,
        "MAX_GLOBAL_VARIABLE_SIZE: each kernel is a program of its own there",
    ),
    (
        0x1053,
        "SVM_CAPABILITIES: no pointer means the same on both sides",
    ),
    (
        0x1054,
        "GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE: as of variables above",
    ),
    (0x1060, "EXTENSIONS_WITH_VERSION: as of extensions above"),
    (
        0x106a,
        "UUID: a processor's driver has none to tell, so each side makes one",
    ),
    (0x106f, "OPENCL_C_FEATURES: none for variables"),
    (0x4190, "HOST_MEM_CAPABILITIES: as of pointers above"),
    (0x4191, "DEVICE_MEM_CAPABILITIES: as above"),
    (0x4192, "SINGLE_DEVICE_SHARED_MEM_CAPABILITIES: as above"),
    (0x4193, "CROSS_DEVICE_SHARED_MEM_CAPABILITIES: as above"),
    (0x4194, "SHARED_SYSTEM_MEM_CAPABILITIES: as above"),
];

/// The entries of these lists that a node's processor lacks.
const LACKING: [&str; 3] = [
    "cl_intel_unified_shared_memory",
    "cl_ext_buffer_device_address",
    "__opencl_c_program_scope_global_variables",
];

/// The names in an answer, which has its bytes in hexadecimal digits.
fn names_in(answer: &str) -> Vec<String> {
    let digits = answer.split_once(':').unwrap().1.split_whitespace();
    let bytes = digits.map(|byte| u8::from_str_radix(byte, 16).unwrap());
    let text: String = bytes
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => byte.into(),
            _ => ' ',
        })
        .collect();
    let names = text.split(' ').filter(|name| name.len() > 4);
    names.map(str::to_owned).collect()
}

#[test]
fn a_node_s_processor_answers_as_it_does_to_its_own_programs() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("questions", home.path(), loader.parent().unwrap());
    let [client, nothing] = ["client", "no-llvm"].map(|name| home.path().join(name));
    std::fs::create_dir(&nothing).unwrap();
    let _serving = serve(&home.path().join("node"), &client);
    let answers = |has_compiler: bool, device: &str| {
        let mut command = quipu(&client, &["exec", "--device", device, "--"]);
        command.arg(&program);
        if !has_compiler {
            command.env("QUIPU_LLVM", &nothing);
        }
        let answers = said(&command.output().unwrap());
        answers.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let is_other = |answer: &String| {
        let mut others = OTHER_ANSWERS.iter();
        others.any(|(number, _)| answer.starts_with(&format!("device {number:#x}:")))
    };
    let (others, own): (Vec<_>, Vec<_>) = answers(true, "cpu:0").into_iter().partition(is_other);
    assert_eq!(others.len(), OTHER_ANSWERS.len());
    // `CL_DRIVER_VERSION` names this machine's compiler, and `CL_DRIVER_UUID_KHR` depends on it.
    let without_driver = |mut answers: Vec<String>| {
        let of_driver = ["device 0x102d:", "device 0x106b:"];
        answers.retain(|answer| {
            !of_driver
                .iter()
                .any(|question| answer.starts_with(question))
        });
        answers
    };
    for has_compiler in [true, false] {
        let told = answers(has_compiler, "box/cpu:0");
        let (other_told, told): (Vec<_>, Vec<_>) = told.into_iter().partition(is_other);
        let [own, told] = match has_compiler {
            true => [own.clone(), told],
            false => [own.clone(), told].map(without_driver),
        };
        assert_eq!(told.len(), own.len());
        for (told, own) in told.iter().zip(&own) {
            assert_eq!(told, own);
        }
        for (own, told) in others.iter().zip(&other_told) {
            assert_ne!(own, told);
            if ["0x1030", "0x1060", "0x106f"]
                .iter()
                .any(|number| own.contains(number))
            {
                let mut expected = names_in(own);
                expected.retain(|name| !LACKING.contains(&&name[..]));
                assert_eq!(names_in(told), expected);
            }
        }
    }
}

#[test]
fn programs_of_several_parts_are_linked_for_a_node() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("linked", home.path(), loader.parent().unwrap());
    let modules = modules(home.path());
    let [client, nothing] = ["client", "no-llvm"].map(|name| home.path().join(name));
    std::fs::create_dir(&nothing).unwrap();
    let _serving = serve(&home.path().join("node"), &client);
    let run = |has_compiler: bool, device: &str| {
        let mut command = quipu(&client, &["exec", "--device", device, "--"]);
        command.arg(&program).args(modules.iter().flatten());
        if !has_compiler {
            command.env("QUIPU_LLVM", &nothing);
        }
        said(&command.output().unwrap())
    };
    let here = run(true, "cpu:0");
    for line in [
        "linker: 1",
        "number: 1045",
        "number: 2045",
        "number: 3045",
        "linked: -17",
        "compiled: -15",
    ] {
        assert!(here.contains(line), "{line} in {here}");
    }
    if modules.is_some() {
        assert!(
            here.ends_with("number: 12\nlinked: 0\nnumber: 303\n"),
            "{here}"
        );
    }
    // The node's compiler says and makes the same.
    for has_compiler in [true, false] {
        assert_eq!(run(has_compiler, "box/cpu:0"), here);
    }
}

#[test]
fn kernels_on_a_node_have_images() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("images", home.path(), loader.parent().unwrap());
    let [client, nothing] = ["client", "no-llvm"].map(|name| home.path().join(name));
    std::fs::create_dir(&nothing).unwrap();
    let _serving = serve(&home.path().join("node"), &client);
    let run = |has_compiler: bool, devices: &[&str]| {
        let mut command = quipu(&client, &["exec"]);
        let devices = devices.iter().flat_map(|device| ["--device", device]);
        command.args(devices).arg("--").arg(&program);
        if !has_compiler {
            command.env("QUIPU_LLVM", &nothing);
        }
        said(&command.output().unwrap())
    };
    let here = run(true, &["cpu:0"]);
    let (first, drawn) = here.split_once('\n').unwrap();
    assert_eq!(first, "devices: 1, formats: many");
    // Of the three layers of numbers from 0 on.
    assert!(drawn.contains("layers: 496 1520 2544\n"), "{drawn}");
    for has_compiler in [true, false] {
        assert_eq!(run(has_compiler, &["box/cpu:0"]), here);
    }
    // An image goes from one device to the other, whose memory is another.
    for other in ["cpu:0", "sim:0"] {
        let two = run(true, &["box/cpu:0", other]);
        assert_eq!(two, format!("devices: 2, formats: many\n{drawn}{drawn}"));
    }
}

#[test]
fn macros_say_what_each_device_of_a_program_lists() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let program = compile_program("macros", home.path(), loader.parent().unwrap());
    let [client, nothing] = ["client", "no-llvm"].map(|name| home.path().join(name));
    std::fs::create_dir(&nothing).unwrap();
    let _serving = serve(&home.path().join("node"), &client);
    let run = |devices: &[&str], has_compiler: bool| {
        let mut command = quipu(&client, &["exec"]);
        let devices = devices.iter().flat_map(|device| ["--device", device]);
        command.args(devices).arg("--").arg(&program);
        command.args(quipu_clc::FEATURES.map(|feature| feature.name));
        if !has_compiler {
            command.env("QUIPU_LLVM", &nothing);
        }
        said(&command.output().unwrap())
    };
    for device in ["cpu:0", "serial", "sim:0", "box/cpu:0"] {
        assert_eq!(run(&[device], true), "true on 1\n", "{device}");
    }
    assert_eq!(run(&["box/cpu:0"], false), "true on 1\n");
    // Each as by itself.
    let together = run(&["box/cpu:0", "cpu:0", "sim:0"], true);
    assert_eq!(together, "true on 3\n");
}

#[test]
fn a_node_without_a_compiler_has_another_platform_read_programs() {
    let pocl = Path::new("/etc/OpenCL/vendors/pocl.icd");
    if !can_be_tested() || !pocl.is_file() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let loader = system_loader().unwrap();
    let addition = compile(home.path(), loader.parent().unwrap());
    let client = home.path().join("client");
    let nothing = home.path().join("no-llvm");
    std::fs::create_dir(&nothing).unwrap();
    let _serving = serve_with(&home.path().join("node"), &client, |command| {
        command.env("QUIPU_LLVM", &nothing);
        command.env("QUIPU_OPENCL_VENDORS", pocl);
        command.env_remove("QUIPU_OPENCL");
    });
    let run = |device: &str| {
        let mut command = quipu(&client, &["exec", "--device", device, "--"]);
        command.arg(&addition).env("QUIPU_LLVM", &nothing);
        command.output().unwrap()
    };
    let output = said(&run("box/opencl:0"));
    assert!(
        output.contains("pthread") && output.contains("box"),
        "{output}"
    );
    // Nothing compiles for the node's own processor. So it is no device for OpenCL, and listed only
    // if it is named itself.
    assert!(!run("box/cpu:0").status.success());
    assert_eq!(said(&run("box")), output);
}

#[test]
fn what_cannot_be_run_is_said() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (
            &["exec", "--", "/no/such/program"][..],
            "cannot run /no/such/program",
        ),
        (&["exec", "--node", "nowhere", "--", "true"], "nowhere"),
    ] {
        let output = quipu(&home.path().join("home"), arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1) && errors.contains(expected),
            "{errors}"
        );
    }
}
