//! Programs that OpenCL's compilers read for a host without one.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_clc::{Description, KernelInfo, MemoryAccess, ParameterKind, ProgramText};
use quipu_scheduler::{Device, Error, ErrorKind};
use support::{devices, opencl_or_skip};

fn describe(device: &Device, source: &str, options: &str) -> Result<Description, Error> {
    let text = ProgramText {
        source: source.into(),
        options: options.to_owned(),
    };
    let told = device.driver().describe(device.index(), &text)?;
    Ok(*told.downcast::<Description>().unwrap())
}

#[test]
fn a_program_has_the_kernels_and_parameters_of_its_text() {
    if !opencl_or_skip() {
        return;
    }
    const TEXT: &str = "
        kernel __attribute__((reqd_work_group_size(8, 4, 1)))
        void several(global const float *restrict in, global int *out, constant uchar *table, local short *part,
                     float3 scale, uchar small, ulong4 wide) {
            part[get_local_id(0)] = table[0];
            out[0] = (int)in[0] + (int)wide.w + (int)scale.x + small + part[0];
        }
        kernel void nothing() {}";
    for device in devices().unwrap() {
        let described = describe(&device, TEXT, "-cl-std=CL1.2").unwrap();
        let find = |name: &str| -> KernelInfo {
            let mut kernels = described.kernels.iter();
            kernels.find(|kernel| kernel.name == name).unwrap().clone()
        };
        assert_eq!(described.kernels.len(), 2);
        assert_eq!(find("nothing").parameters, []);
        assert_eq!(find("nothing").required_local_size, None);
        let several = find("several");
        assert_eq!(several.required_local_size, Some([8, 4, 1]));
        let names = several.parameters.iter().map(|it| it.name.as_str());
        let names: Vec<&str> = names.collect();
        assert_eq!(
            names,
            ["in", "out", "table", "part", "scale", "small", "wide"]
        );
        let sizes = several.parameters.iter().map(|it| match it.kind {
            ParameterKind::Value { size, .. } => size,
            _ => 0,
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [0, 0, 0, 0, 16, 1, 32]);
        let kinds: Vec<ParameterKind> = several.parameters.iter().map(|it| it.kind).collect();
        assert_eq!(
            kinds[..4],
            [
                ParameterKind::Memory(MemoryAccess::Read),
                ParameterKind::Memory(MemoryAccess::ReadWrite),
                ParameterKind::Memory(MemoryAccess::Read),
                ParameterKind::Local,
            ]
        );
        assert!(several.parameters[2].is_constant && !several.parameters[0].is_constant);
        assert!(several.parameters[0].qualifiers.contains("restrict"));
        assert_eq!(describe(&device, " \n", "").unwrap().kernels, []);
    }
}

#[test]
fn a_structure_has_its_size_or_the_kernel_is_not_described() {
    if !opencl_or_skip() {
        return;
    }
    const TEXT: &str = "
        struct pair { int left; long right; };
        kernel void f(struct pair pair, global long *out) { out[0] = pair.left + pair.right; }";
    for device in devices().unwrap() {
        match describe(&device, TEXT, "") {
            Ok(described) => {
                let kind = described.kernels[0].parameters[0].kind;
                assert!(
                    matches!(kind, ParameterKind::Value { size: 16, .. }),
                    "{kind:?}"
                );
            }
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::Unsupported { .. })
                    && error.to_string().contains("pair"),
                "{error}"
            ),
        }
    }
}

#[test]
fn a_program_that_is_refused_has_the_log() {
    if !opencl_or_skip() {
        return;
    }
    for device in devices().unwrap() {
        let error = describe(&device, "kernel void f() { missing(); }", "").unwrap_err();
        let ErrorKind::Kernel { message, .. } = error.kind() else {
            panic!("{error}")
        };
        assert!(message.contains("missing"), "{message}");
    }
}
