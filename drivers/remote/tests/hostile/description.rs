//! Answers of nodes to questions about programs that they read for a client.

use crate::lane::Lane;
use crate::node::Liar;
use crate::{alone, asked, support};
use quipu_clc::{Description, KernelInfo, MemoryAccess, ParameterInfo, ParameterKind, ProgramText};
use quipu_driver_remote::{Options, connect};
use quipu_link::Key;
use quipu_protocol::message::{
    BuildLog, Failed, Failure, KernelDescription, Message, ParameterClass, ParameterDescription,
};
use quipu_protocol::{DETAILS, GROUPS, LARGE_PROGRAMS};
use quipu_scheduler::{Device, Driver, Error, ErrorKind};
use std::sync::Arc;

/// Has a program read by a node that does this with the event of the question.
fn described(script: impl FnOnce(&mut Lane, u64) + Send + 'static) -> Result<Description, Error> {
    let _alone = alone();
    described_by(Liar::start(), script)
}

fn described_by(
    (liar, key): (Liar, Key),
    script: impl FnOnce(&mut Lane, u64) + Send + 'static,
) -> Result<Description, Error> {
    liar.script(move |mut commands, _| {
        let all = asked(&mut commands, 1);
        script(&mut commands, all[0].event);
    });
    let options = Options {
        patience: support::PATIENCE,
        ..Options::new("liar", &liar.address.to_string(), liar.fingerprint)
    };
    let driver: Arc<dyn Driver> = connect(&options, &key).unwrap();
    let device = Device::all_of(&driver).unwrap().remove(0);
    let text = ProgramText {
        source: "kernel void f(global int *x) {}".into(),
        options: "-w".to_owned(),
    };
    quipu_clc::describe_by_driver(&device, &text)
}

fn kernel(event: u64, parameters: u16) -> Message<'static> {
    Message::KernelDescription(KernelDescription {
        event,
        name: "f",
        attributes: "vec_type_hint(int)\nwork_group_size_hint(8,1,1)",
        parameters,
        required_local_size: Some([8, 4, 1]),
        local_bytes: 128,
        has_barriers: true,
        reaches_beyond: false,
        uniform_groups: false,
        sub_group_size: 16,
        private_bytes: 8000,
    })
}

fn parameter(event: u64) -> ParameterDescription<'static> {
    ParameterDescription {
        event,
        class: ParameterClass::Constant,
        is_read: true,
        is_written: false,
        is_const: true,
        is_restrict: false,
        is_volatile: true,
        size: [0; 2],
        name: "x",
        type_name: "int*",
    }
}

fn log(event: u64, text: &str) -> Message<'_> {
    Message::BuildLog(BuildLog { event, text })
}

/// Completes the question, and answers nothing else.
fn complete(commands: &mut Lane, event: u64) {
    commands.push(&Message::Completed(quipu_protocol::message::Completed {
        events: &[event.into()],
    }));
    commands.flush();
    while commands.next(|_| ()).is_ok() {}
}

#[test]
fn kernels_and_log_are_as_the_node_says() {
    let description = described(|commands, event| {
        commands.push(&log(event, "one "));
        commands.push(&log(event, "two"));
        commands.push(&kernel(event, 2));
        commands.push(&Message::ParameterDescription(parameter(event)));
        commands.push(&Message::ParameterDescription(ParameterDescription {
            class: ParameterClass::Value,
            is_read: false,
            is_const: false,
            is_volatile: false,
            size: [12, 4],
            ..parameter(event)
        }));
        complete(commands, event);
    });
    let parameter = ParameterInfo {
        name: "x".to_owned(),
        type_name: "int*".to_owned(),
        qualifiers: "const volatile".to_owned(),
        is_constant: true,
        kind: ParameterKind::Memory(MemoryAccess::Read),
    };
    let value = ParameterInfo {
        qualifiers: String::new(),
        is_constant: false,
        kind: ParameterKind::Value { size: 12, align: 4 },
        ..parameter.clone()
    };
    let expected = Description {
        kernels: vec![KernelInfo {
            name: "f".to_owned(),
            parameters: vec![parameter, value],
            required_local_size: Some([8, 4, 1]),
            // Whatever the options say.
            uniform_groups: false,
            sees_groups: true,
            attributes: ["vec_type_hint(int)", "work_group_size_hint(8,1,1)"]
                .map(str::to_owned)
                .to_vec(),
            local_bytes: 128,
            private_bytes: 8000,
            sub_group_size: Some(16),
            has_barriers: true,
            reaches_beyond: false,
        }],
        log: "one two".to_owned(),
    };
    assert_eq!(description.unwrap(), expected);
}

#[test]
fn a_node_says_no_more_of_a_kernel_than_was_agreed_on() {
    let described = |features: u64| {
        let _alone = alone();
        let (liar, key) = Liar::start();
        liar.lack(features);
        described_by((liar, key), move |commands, event| {
            commands.push(&kernel(event, 0));
            complete(commands, event);
        })
    };
    assert!(described(LARGE_PROGRAMS).is_ok());
    for features in [GROUPS, DETAILS] {
        let error = described(features).unwrap_err().to_string();
        assert!(error.contains("broke a rule"), "{error}");
    }
}

#[test]
fn a_node_that_does_not_say_how_groups_are_divided_says_nothing_of_it() {
    let described = |groups: bool| {
        let _alone = alone();
        let (liar, key) = Liar::start();
        liar.lack(GROUPS);
        described_by((liar, key), move |commands, event| {
            let Message::KernelDescription(kernel) = kernel(event, 0) else {
                unreachable!()
            };
            commands.push(&Message::KernelDescription(KernelDescription {
                uniform_groups: groups,
                sub_group_size: 0,
                private_bytes: 0,
                ..kernel
            }));
            complete(commands, event);
        })
    };
    // The options of the program name no version, so they say it.
    let kernel = described(false).unwrap().kernels.remove(0);
    assert!(kernel.uniform_groups && kernel.sub_group_size.is_none());
    let error = described(true).unwrap_err().to_string();
    assert!(error.contains("broke a rule"), "{error}");
}

#[test]
fn a_program_that_the_node_refuses_has_its_log() {
    let error = described(|commands, event| {
        commands.push(&log(event, "line 1: no\n"));
        commands.push(&log(event, "line 2: no"));
        commands.push(&Message::Failed(Failed {
            event,
            cause: 0,
            failure: Failure::Kernel,
            numbers: [0; 3],
            what: "compiling OpenCL C",
            text: "line 1: no",
        }));
        commands.flush();
        while commands.next(|_| ()).is_ok() {}
    });
    let error = error.unwrap_err();
    let ErrorKind::Kernel { what, message } = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(what, "compiling OpenCL C on node 'liar'");
    assert_eq!(message, "line 1: no\nline 2: no");
}

#[test]
fn a_node_that_is_lost_as_it_reads_is_named() {
    let error = described(|commands, event| {
        commands.push(&kernel(event, 2));
        commands.flush();
    });
    let error = error.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::DeviceLost { .. }) && error.to_string().contains("liar"),
        "{error}"
    );
}

#[test]
fn answers_that_make_no_sense_break_a_rule() {
    let cases: [fn(&mut Lane, u64); 5] = [
        // A kernel lacks parameters at the end, or before the next kernel.
        |commands, event| {
            commands.push(&kernel(event, 1));
        },
        |commands, event| {
            commands.push(&kernel(event, 1));
            commands.push(&kernel(event, 0));
        },
        // A parameter of no kernel, and one too many.
        |commands, event| {
            commands.push(&Message::ParameterDescription(parameter(event)));
        },
        |commands, event| {
            commands.push(&kernel(event, 0));
            commands.push(&Message::ParameterDescription(parameter(event)));
        },
        // Nobody has asked.
        |commands, event| {
            commands.push(&log(event + 1, "a log"));
        },
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let error = described(move |commands, event| {
            case(commands, event);
            complete(commands, event);
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("broke a rule"), "{number}: {error}");
    }
    // A log without end.
    let error = described(|commands, event| {
        for _ in 0..=quipu_protocol::limits::MAX_LOG / 4096 {
            commands.push(&log(event, &"a".repeat(4096)));
            commands.flush();
        }
        complete(commands, event);
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("broke a rule"), "{error}");
}
