//! Wrong arguments of clients: a kernel gets arguments that its parameters allow, or the launch
//! fails.
#![allow(dead_code, reason = "kernels are named here, and called by clients")]

use super::{Kernels, Networks, Server};
use crate::Platform;
use crate::prelude::*;
use proptest::collection::vec;
use proptest::prelude::*;
use quipu_kernel_names::native_name;
use quipu_node::{Launch, Natives, Parameter};
use quipu_scheduler::portable::Extents;
use quipu_scheduler::{AccessMode, Passed, RawArgument};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, KernelData, bytemuck::NoUninit, bytemuck::CheckedBitPattern)]
#[kernel_data(crate = crate)]
#[repr(u8)]
enum Choice {
    Zero = 0,
    One = 1,
    Many = 200,
}

// SAFETY: `Zero` is all zeros.
unsafe impl bytemuck::Zeroable for Choice {}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = crate)]
#[repr(C)]
struct Mixed {
    choice: Choice,
    number: u32,
    flags: [bool; 2],
}

#[kernel(crate = crate)]
fn flat(_acc: &impl Accelerator<1>, mixed: Mixed, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        // It accepts any arguments: a panic of its own would say nothing of the code that passes
        // them.
        let of_x = if x.is_empty() { 0 } else { x[i % x.len()] };
        let of_choice = match mixed.choice {
            Choice::Zero => 0,
            Choice::One => 1,
            Choice::Many => 2,
        };
        *y = of_x.wrapping_add(mixed.number).wrapping_add(of_choice);
        if mixed.flags[1] {
            *y = y.wrapping_add(1);
        }
    }
}

#[kernel(crate = crate)]
fn plane(_acc: &impl Accelerator<2>, x: GlobalRef<u16, 2>, mut y: OwnElements<u16, 2>) {
    for (at, row) in y.rows() {
        for (k, y) in row.iter_mut().enumerate() {
            if x.extent()[0] > 0 && x.extent()[1] > 0 {
                *y = x[[at[0] % x.extent()[0], (at[1] + k) % x.extent()[1]]];
            }
        }
    }
}

#[kernel(crate = crate)]
fn choices(_acc: &impl Accelerator<1>, x: &[Choice], mut y: OwnRows<bool>) {
    for (i, row) in y.each() {
        for y in row.iter_mut() {
            let choice = if x.is_empty() {
                Choice::Zero
            } else {
                x[i % x.len()]
            };
            *y = match choice {
                Choice::Zero => *y,
                Choice::One => true,
                Choice::Many => !*y,
            };
        }
    }
}

#[kernel(crate = crate)]
async fn shared(
    acc: &impl BlockAccelerator<1>,
    divisor: u32,
    counts: Atomics<u32>,
    raw: RawMut<u8>,
    result: OwnBlock<u64>,
    #[shared(1000 / divisor as usize)] mut own: SharedWrite<u64>,
) {
    for part in own.own().iter_mut() {
        *part = divisor as u64;
    }
    let own = acc.sync(own).await;
    for result in result {
        *result += own[0];
    }
    counts.add(acc.index(Grid, Threads)[0], 1);
    if raw.len() > 1 {
        // SAFETY: of one block; others write the same.
        unsafe { raw.write(1, 9) };
    }
}

fn kernels() -> Kernels {
    Kernels::new()
        .with::<flat, _>()
        .with::<plane, _>()
        .with::<choices, _>()
        .with::<shared, _>()
}

/// A buffer's bytes.
const BYTES: u64 = 96;
/// Bytes on either side of it that no kernel may write, of the same alignment.
const MARGIN: usize = 64;
const CANARY: u8 = 0xa5;

#[derive(Clone, Debug)]
enum Sent {
    Value(Vec<u8>),
    Memory {
        mode: AccessMode,
        buffer: u64,
        start: u64,
        length: u64,
        element: u64,
        shape: Option<(Extents, Extents)>,
    },
}

#[derive(Clone, Debug)]
struct Case {
    kernel: usize,
    parameters: Vec<Sent>,
    division: [Vec<u64>; 3],
    shared: Vec<u64>,
    bytes: Vec<u8>,
}

fn memory(mode: AccessMode, buffer: u64, length: u64, element: u64) -> Sent {
    Sent::Memory {
        mode,
        buffer,
        start: 0,
        length,
        element,
        shape: None,
    }
}

fn shaped(mode: AccessMode, buffer: u64, element: u64, extents: [u64; 2], pitch: u64) -> Sent {
    let span = (extents[0] - 1) * pitch + extents[1];
    Sent::Memory {
        mode,
        buffer,
        start: 0,
        length: span * element,
        element,
        shape: Some((
            Extents::from_slice(&extents),
            Extents::from_slice(&[pitch, 1]),
        )),
    }
}

/// A launch that a client which means well could send.
fn good(kernel: usize) -> Case {
    let (read, write) = (AccessMode::Read, AccessMode::ReadWrite);
    let one = |number: u64, rank: usize| vec![number; rank];
    let (parameters, rank, shared) = match kernel {
        0 => {
            let mixed = [&[200, 0, 0, 0][..], &7_u32.to_ne_bytes(), &[1, 0, 0, 0]].concat();
            let memories = [
                memory(read, 1, 32, 4),
                memory(AccessMode::Overwrite, 2, 64, 4),
            ];
            (
                [vec![Sent::Value(mixed)], memories.into()].concat(),
                1,
                vec![],
            )
        }
        1 => {
            let y = shaped(write, 2, 2, [4, 5], 7);
            (vec![shaped(read, 1, 2, [3, 3], 3), y], 2, vec![])
        }
        2 => {
            let y = shaped(write, 2, 1, [6, 8], 9);
            (vec![memory(read, 1, 10, 1), y], 1, vec![])
        }
        _ => {
            let value = Sent::Value(10_u32.to_ne_bytes().into());
            let memories = [
                memory(write, 1, 32, 4),
                memory(write, 2, 16, 1),
                memory(write, 3, 32, 8),
            ];
            ([vec![value], memories.into()].concat(), 1, vec![100])
        }
    };
    Case {
        kernel,
        parameters,
        division: [one(2, rank), one(2, rank), one(3, rank)],
        shared,
        bytes: vec![1; BYTES as usize],
    }
}

/// Numbers at which something may go wrong.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..10_u64,
        Just(u64::MAX),
        Just(1 << 31),
        Just(1 << 63),
        any::<u64>()
    ]
}

fn mode() -> impl Strategy<Value = AccessMode> {
    prop_oneof![
        Just(AccessMode::Read),
        Just(AccessMode::ReadWrite),
        Just(AccessMode::Overwrite)
    ]
}

fn parameter() -> impl Strategy<Value = Sent> {
    let extents = || vec(number(), 0..4).prop_map(Extents::from_vec);
    let memory = (
        mode(),
        1..4_u64,
        0..BYTES,
        1..=BYTES,
        1..10_u64,
        prop::option::of((extents(), extents())),
    );
    prop_oneof![
        vec(any::<u8>(), 0..14).prop_map(Sent::Value),
        memory.prop_map(
            |(mode, buffer, start, length, element, shape)| Sent::Memory {
                mode,
                buffer,
                start,
                // The node has checked that it lies in the buffer.
                length: length.min(BYTES - start),
                element,
                shape,
            }
        ),
    ]
}

/// One change, of a few.
#[derive(Clone, Debug)]
enum Change {
    Replace(usize, Sent),
    Leave(usize),
    Add(Sent),
    Mode(usize, AccessMode),
    Buffer(usize, u64),
    Start(usize, u64),
    Length(usize, u64),
    Extent(usize, usize, u64),
    Stride(usize, usize, u64),
    Byte(usize, usize, u8),
    Division(usize, usize, u64),
    Dimensions(usize, Vec<u64>),
    Shared(Vec<u64>),
    Bytes(Vec<u8>),
    Nothing,
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0..5_usize;
    prop_oneof![
        (at.clone(), parameter()).prop_map(|(at, to)| Change::Replace(at, to)),
        at.clone().prop_map(Change::Leave),
        parameter().prop_map(Change::Add),
        (at.clone(), mode()).prop_map(|(at, to)| Change::Mode(at, to)),
        (at.clone(), 1..4_u64).prop_map(|(at, to)| Change::Buffer(at, to)),
        (at.clone(), 0..BYTES).prop_map(|(at, to)| Change::Start(at, to)),
        (at.clone(), 1..=BYTES).prop_map(|(at, to)| Change::Length(at, to)),
        (at.clone(), 0..2_usize, number())
            .prop_map(|(at, which, to)| Change::Extent(at, which, to)),
        (at.clone(), 0..2_usize, number())
            .prop_map(|(at, which, to)| Change::Stride(at, which, to)),
        (at, 0..12_usize, any::<u8>()).prop_map(|(at, which, to)| Change::Byte(at, which, to)),
        (0..3_usize, 0..2_usize, number()).prop_map(|(of, at, to)| Change::Division(of, at, to)),
        (0..3_usize, vec(number(), 0..4)).prop_map(|(of, to)| Change::Dimensions(of, to)),
        vec(number(), 0..3).prop_map(Change::Shared),
        vec(any::<u8>(), BYTES as usize).prop_map(Change::Bytes),
        Just(Change::Nothing),
    ]
}

fn changed(mut case: Case, changes: Vec<Change>) -> Case {
    for change in changes {
        let count = case.parameters.len().max(1);
        let parameters = &mut case.parameters;
        match change {
            Change::Replace(at, to) => {
                if let Some(sent) = parameters.get_mut(at % count) {
                    *sent = to;
                }
            }
            Change::Leave(at) => {
                if !parameters.is_empty() {
                    parameters.remove(at % count);
                }
            }
            Change::Add(sent) => parameters.push(sent),
            Change::Mode(at, to) => {
                if let Some(Sent::Memory { mode, .. }) = parameters.get_mut(at % count) {
                    *mode = to;
                }
            }
            Change::Buffer(at, to) => {
                if let Some(Sent::Memory { buffer, .. }) = parameters.get_mut(at % count) {
                    *buffer = to;
                }
            }
            Change::Start(at, to) => {
                if let Some(Sent::Memory { start, length, .. }) = parameters.get_mut(at % count) {
                    *start = to;
                    *length = (*length).min(BYTES - to);
                }
            }
            Change::Length(at, to) => {
                if let Some(Sent::Memory { start, length, .. }) = parameters.get_mut(at % count) {
                    *length = to.min(BYTES - *start);
                }
            }
            Change::Extent(at, which, to) | Change::Stride(at, which, to) => {
                let is_extent = matches!(change, Change::Extent(..));
                if let Some(Sent::Memory {
                    shape: Some(shape), ..
                }) = parameters.get_mut(at % count)
                {
                    let all = if is_extent {
                        &mut shape.0
                    } else {
                        &mut shape.1
                    };
                    all.iter_mut().skip(which).take(1).for_each(|it| *it = to);
                }
            }
            Change::Byte(at, which, to) => {
                if let Some(Sent::Value(bytes)) = parameters.get_mut(at % count) {
                    bytes.iter_mut().skip(which).take(1).for_each(|it| *it = to);
                }
            }
            Change::Division(of, at, to) => {
                case.division[of]
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|it| *it = to);
            }
            Change::Dimensions(of, to) => case.division[of] = to,
            Change::Shared(to) => case.shared = to,
            Change::Bytes(to) => case.bytes = to,
            Change::Nothing => {}
        }
    }
    case
}

/// The outcome of a launch.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Refused(String),
    Failed(String),
    Panicked,
    Ran,
}

/// Three buffers, with bytes around them that no kernel may write.
struct Memory(Vec<Vec<u64>>);

impl Memory {
    fn new(bytes: &[u8]) -> Self {
        let whole = vec![u64::from_ne_bytes([CANARY; 8]); (2 * MARGIN + BYTES as usize) / 8];
        let mut buffers = vec![whole; 3];
        for buffer in &mut buffers {
            bytemuck::cast_slice_mut::<u64, u8>(buffer)[MARGIN..][..bytes.len()]
                .copy_from_slice(bytes);
        }
        Self(buffers)
    }

    fn bytes(&self, buffer: usize) -> &[u8] {
        bytemuck::cast_slice(&self.0[buffer])
    }
}

/// Launches it as a node does, and checks that nothing is written which is not to be.
fn launch(case: &Case) -> Outcome {
    let modules = [
        crate::kernel::print::module::<flat, _>(),
        crate::kernel::print::module::<plane, _>(),
        crate::kernel::print::module::<choices, _>(),
        crate::kernel::print::module::<shared, _>(),
    ];
    let name = native_name(modules[case.kernel].as_ref().unwrap()).unwrap();
    let maker = kernels().find(&name).unwrap();
    let platform = Platform::builder()
        .opencl(false)
        .cuda(false)
        .build()
        .unwrap();
    let device = platform.device("serial").unwrap().core().clone();
    let [blocks, threads, elements] =
        [0, 1, 2].map(|of: usize| Extents::from_slice(&case.division[of]));
    let passed = Passed {
        blocks,
        threads,
        elements,
        shared: case.shared.iter().copied().collect(),
        ..Passed::default()
    };
    let parameters: Vec<_> = case
        .parameters
        .iter()
        .map(|sent| match sent {
            Sent::Value(bytes) => Parameter::Value(bytes),
            Sent::Memory {
                mode,
                buffer,
                start,
                length,
                element,
                shape,
            } => Parameter::Memory {
                mode: *mode,
                buffer: *buffer,
                range: *start..*start + *length,
                element: *element,
                shape: shape.as_ref(),
            },
        })
        .collect();
    let kernel = match maker(&Launch {
        device: &device,
        passed: &passed,
        parameters: &parameters,
    }) {
        Ok(kernel) => kernel,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let mut memory = Memory::new(&case.bytes);
    let before = Memory::new(&case.bytes);
    let mut writable = [vec![false; 2 * MARGIN + BYTES as usize], vec![], vec![]];
    writable = [0, 1, 2].map(|_| writable[0].clone());
    let mut arguments = Vec::new();
    for parameter in &parameters {
        let Parameter::Memory {
            mode,
            buffer,
            range,
            ..
        } = parameter
        else {
            continue;
        };
        let which = *buffer as usize - 1;
        let (start, end) = (range.start as usize + MARGIN, range.end as usize + MARGIN);
        if mode.writes() {
            writable[which][start..end].fill(true);
        }
        arguments.push(RawArgument {
            pointer: memory.0[which]
                .as_mut_ptr()
                .cast::<u8>()
                .wrapping_add(start)
                .cast(),
            length: end - start,
        });
    }
    let groups = passed.blocks.iter().product::<u64>().min(4) as u32;
    // SAFETY: the memory is there; no group is run twice.
    let ran = catch_unwind(AssertUnwindSafe(|| unsafe {
        kernel.run(&arguments, 0..groups)
    }));
    for (which, writable) in writable.iter().enumerate() {
        let both = memory.bytes(which).iter().zip(before.bytes(which));
        for (at, (now, before)) in both.enumerate() {
            assert!(
                writable[at] || now == before,
                "byte {at} of buffer {which} was written"
            );
        }
    }
    match ran {
        Err(_) => Outcome::Panicked,
        Ok(Err(error)) => Outcome::Failed(error.to_string()),
        Ok(Ok(())) => Outcome::Ran,
    }
}

#[test]
fn what_means_well_runs() {
    for kernel in 0..4 {
        assert_eq!(launch(&good(kernel)), Outcome::Ran, "kernel {kernel}");
    }
}

#[test]
fn what_is_overwritten_has_values_whatever_was_there() {
    let mut case = good(2);
    // No bits of `bool`.
    case.bytes = vec![200; BYTES as usize];
    let outcome = launch(&case);
    assert!(
        matches!(&outcome, Outcome::Failed(error) if error.contains("no value of bool")),
        "{outcome:?}"
    );
    let Sent::Memory { mode, .. } = &mut case.parameters[1] else {
        unreachable!()
    };
    *mode = AccessMode::Overwrite;
    assert_eq!(launch(&case), Outcome::Ran);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_does_not_is_refused_or_harmless(
        kernel in 0..4_usize,
        changes in vec(change(), 1..5),
    ) {
        let case = changed(good(kernel), changes);
        let outcome = launch(&case);
        // The lengths of its shared arrays divide by a passed value: that is the kernel's own
        // panic, which drivers contain.
        prop_assert!(kernel == 3 || outcome != Outcome::Panicked, "{outcome:?}");
    }
}

/// Each changed launch, with a part of its error.
#[test]
fn each_thing_that_is_wrong_is_named() {
    let text = |kernel, change, part: &str| {
        let outcome = launch(&changed(good(kernel), vec![change]));
        let (Outcome::Refused(text) | Outcome::Failed(text)) = &outcome else {
            panic!("{outcome:?}");
        };
        assert!(text.contains(part), "{text}");
    };
    let (read, write) = (AccessMode::Read, AccessMode::ReadWrite);
    text(
        0,
        Change::Leave(2),
        "passes 2 parameters, and the kernel has more",
    );
    let one_more = Change::Add(Sent::Value(vec![]));
    text(0, one_more, "passes 4 parameters where the kernel has 3");
    text(
        0,
        Change::Replace(0, memory(read, 1, 4, 4)),
        "parameter 0 that is memory",
    );
    text(
        0,
        Change::Replace(1, Sent::Value(vec![])),
        "parameter 1 that is a value",
    );
    text(
        0,
        Change::Replace(0, Sent::Value(vec![0; 11])),
        "another size",
    );
    text(
        0,
        Change::Byte(0, 0, 7),
        "parameter 0 whose bytes are no value of its type",
    );
    text(
        0,
        Change::Byte(0, 9, 2),
        "parameter 0 whose bytes are no value of its type",
    );
    text(
        0,
        Change::Mode(2, read),
        "parameter 2 to be read only, which the kernel writes",
    );
    text(0, Change::Buffer(2, 1), "parameters 1 and 2 that overlap");
    text(
        0,
        Change::Start(1, 2),
        "parameter 1 that does not begin and end at an element",
    );
    text(0, Change::Length(1, 5), "does not begin and end");
    text(
        0,
        Change::Replace(2, memory(write, 2, 64, 2)),
        "elements are of another size",
    );
    text(
        0,
        Change::Replace(1, shaped(read, 1, 4, [2, 2], 2)),
        "elements in a row",
    );
    for stride in [0, 4, u64::MAX] {
        text(1, Change::Stride(1, 0, stride), "rows that overlap");
    }
    text(1, Change::Stride(1, 1, 2), "rows that overlap");
    text(1, Change::Extent(1, 0, 5), "goes beyond its memory");
    text(
        1,
        Change::Extent(1, 1, u64::MAX),
        "not one of the kernel's dimensions",
    );
    text(
        1,
        Change::Replace(0, memory(read, 1, 32, 2)),
        "not one of the kernel's dimensions",
    );
    text(
        1,
        Change::Dimensions(0, vec![1]),
        "dimensions where the kernel has 2",
    );
    text(1, Change::Division(1, 0, 0), "cannot be divided so");
    text(1, Change::Division(2, 0, u64::MAX), "cannot be divided so");
    text(1, Change::Division(1, 0, 1 << 20), "threads per block");
    text(
        3,
        Change::Shared(vec![]),
        "kernel 'shared' has 1 shared arrays, and the launch 0",
    );
    let mut bytes = vec![1; BYTES as usize];
    bytes[3] = 2;
    text(2, Change::Bytes(bytes.clone()), "element 3");
    bytes[3] = 200;
    text(2, Change::Bytes(bytes), "element 3");
}

/// Where a device runs no native code, the code that computes the lengths of shared arrays is
/// called before anything runs.
#[test]
fn a_panic_for_a_client_is_an_error() {
    let good = changed(good(3), vec![]);
    assert_eq!(launch(&good), Outcome::Ran);
    let zero = Change::Replace(0, Sent::Value(vec![0; 4]));
    assert_eq!(launch(&changed(good, vec![zero])), Outcome::Panicked);
}

/// The address at which a node tells its clients that other nodes find it.
fn where_others_find(serve: impl FnOnce(Server) -> Server) -> Option<std::net::SocketAddr> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(Kernels::new())
        .address("127.0.0.1:0")
        .folder(folder.path().join("node"))
        .devices(|| {
            let one = std::num::NonZero::<usize>::MIN;
            let platform = crate::Platform::builder().without_embedded();
            let platform = platform.cpu(crate::drivers::Options::new().workers(one));
            Ok(platform.build()?.devices().to_vec())
        })
        .one_process();
    let serving = serve(server).start().unwrap();
    let patience = std::time::Duration::from_secs(120);
    let own = folder.path().join("client");
    let line = serving.invite().unwrap();
    let node = crate::drivers::remote::paired::pair(&own, &line, patience).unwrap();
    let key = quipu_link::Key::of(&quipu_link::Folder::open(&own).unwrap(), "client.key").unwrap();
    let dial = quipu_link::client::Dial {
        address: &node.address,
        node: node.fingerprint,
        key: &key,
        name: "test",
        patience,
    };
    let greeted = dial.begin(std::time::Duration::ZERO).unwrap();
    greeted.terms.peer_address.map(|address| address.socket())
}

#[test]
fn other_nodes_find_a_server_where_it_says_unless_it_has_to_do_with_none() {
    let elsewhere = "10.1.2.3:99".parse().unwrap();
    assert_eq!(
        where_others_find(|server| server.peer_address(elsewhere)),
        Some(elsewhere)
    );
    let here = where_others_find(|server| server).unwrap();
    assert!(here.ip().is_loopback());
    assert_eq!(
        where_others_find(|server| server.peer_networks(Networks::none())),
        None
    );
}
