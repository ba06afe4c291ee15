//! Nodes that are not there, and long programs for nodes.

use super::{can_be_tested, compile, quipu, said, serve, system_loader};

#[test]
fn a_program_goes_on_without_a_node_that_is_not_there_and_says_so() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let program = compile(home.path(), system_loader().unwrap().parent().unwrap());
    let client = home.path().join("client");
    drop(serve(&home.path().join("node"), &client));
    let nodes = quipu(&client, &["nodes"]).output().unwrap();
    let nodes = String::from_utf8(nodes.stdout).unwrap();
    let address = nodes.split_whitespace().nth(1).unwrap();
    let mut command = quipu(&client, &["exec", "--"]);
    let output = command.arg(&program).env("QUIPU_NODES", "all").output();
    let output = output.unwrap();
    assert_eq!(said(&output).lines().count(), 1);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("goes on without a node"), "{errors}");
    assert!(errors.contains("node 'box'"), "{errors}");
    assert!(errors.contains(address), "{errors}");
}

/// Of more bytes than a message may have.
#[test]
fn a_long_program_runs_on_a_node() {
    if !can_be_tested() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let client = home.path().join("client");
    let _serving = serve(&home.path().join("node"), &client);
    let [text, numbers, nothing] =
        ["twice.cl", "numbers", "no-llvm"].map(|name| home.path().join(name));
    std::fs::create_dir(&nothing).unwrap();
    let comment = format!("/* {} */\n", "long ".repeat(1 << 9)).repeat(1 << 10);
    let twice = "kernel void twice(global int *x) { x[get_global_id(0)] *= 2; }";
    std::fs::write(&text, format!("{comment}{twice}")).unwrap();
    assert!(comment.len() > 2 << 20);
    // The client reads the program itself, or has the node do it.
    for has_compiler in [true, false] {
        std::fs::write(&numbers, [1_i32, 2, 3, 4].map(i32::to_ne_bytes).concat()).unwrap();
        let mut command = quipu(&client, &["run"]);
        command.arg(&text);
        command.args(["twice", "--device", "box/cpu:0", "--global", "4", "--inout"]);
        command.arg(&numbers);
        if !has_compiler {
            command.env("QUIPU_LLVM", &nothing);
        }
        said(&command.output().unwrap());
        let doubled = [2_i32, 4, 6, 8].map(i32::to_ne_bytes).concat();
        assert_eq!(std::fs::read(&numbers).unwrap(), doubled);
    }
}
