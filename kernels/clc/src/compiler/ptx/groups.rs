//! Collective functions of work-groups and sub-groups on NVIDIA's GPUs.
//!
//! The built-in functions exchange values in the group's memory, as on processors. A sub-group is a
//! warp, or a part of one that a kernel requires. Work-items meet at a barrier of the warp, and say
//! there who they are: the mask of those that are here is a work-item's *state*. A mask has the bit
//! of each work-item that has it, so those with one mask are together.

use super::super::Fault;
use super::super::llvm::*;
use super::super::workgroup::sub_groups::{REQUIRED_SIZE, numbers};
use std::fmt::Write;

/// The work-items of a warp.
const WARP: u64 = 32;
/// The most work-items of a group.
const MOST_ITEMS: u64 = 1024;
/// The bits of a ballot.
const BALLOT_BITS: u64 = 128;

/// The beginnings of the functions' names.
pub(super) const OWN: [&str; 10] = [
    "slots", "result", "states", "meet", "whole", "width", "parts", "apart", "most", "space",
];

/// The functions, for a kernel whose groups have a size that it requires or any.
///
/// # Errors
/// If the kernel requires sub-groups of a size that is no part of a warp.
pub(super) fn text(context: Context, kernel: Value, size: &[u64]) -> Result<String, Fault> {
    let required = numbers(context, kernel, REQUIRED_SIZE).first().copied();
    let width = required.unwrap_or(WARP);
    if width == 0 || !WARP.is_multiple_of(width) {
        return Err(Fault::Refused(format!(
            "error: sub-groups have {WARP} work-items on NVIDIA's GPUs, or a number that divides it, and not {width}"
        )));
    }
    let items = match size {
        [x, y, z] => x * y * z,
        _ => MOST_ITEMS,
    };
    let mut text = String::new();
    for (name, count, number) in [
        ("slots", items, "i64"),
        ("results", 2 * items, "i64"),
        ("states", items, "i32"),
        ("result", 1, "i64"),
    ] {
        let _ = write!(
            text,
            "@quipu_{name} = internal addrspace(3) global [{count} x {number}] undef, align 16\n\
             define internal ptr @__q_{name}() alwaysinline {{\n\
             \x20 ret ptr addrspacecast (ptr addrspace(3) @quipu_{name} to ptr)\n}}\n"
        );
    }
    for (name, value) in [("width", width), ("parts", width), ("most", BALLOT_BITS)] {
        let _ = write!(
            text,
            "define internal i32 @__q_{name}() alwaysinline {{\n  ret i32 {value}\n}}\n"
        );
    }
    for (name, value) in [("whole", false), ("apart", true)] {
        let _ = write!(
            text,
            "define internal i1 @__q_{name}() alwaysinline {{\n  ret i1 {value}\n}}\n"
        );
    }
    text.push_str(
        "declare i1 @llvm.nvvm.isspacep.shared(ptr)\ndeclare i1 @llvm.nvvm.isspacep.local(ptr)\n\
         define internal i32 @__q_space(ptr %p) alwaysinline {\n\
         \x20 %shared = call i1 @llvm.nvvm.isspacep.shared(ptr %p)\n  %local = call i1 @llvm.nvvm.isspacep.local(ptr %p)\n\
         \x20 %own = select i1 %local, i32 2, i32 0\n  %space = select i1 %shared, i32 1, i32 %own\n  ret i32 %space\n}\n",
    );
    text.push_str("declare void @llvm.nvvm.bar.warp.sync(i32)\n");
    text.push_str("define internal void @__q_meet(i32 %whom) alwaysinline convergent {\n");
    for (value, register) in [
        ("x", "tid.x"),
        ("y", "tid.y"),
        ("z", "tid.z"),
        ("nx", "ntid.x"),
        ("ny", "ntid.y"),
        ("nz", "ntid.z"),
    ] {
        let _ = writeln!(
            text,
            "  %{value} = call i32 @llvm.nvvm.read.ptx.sreg.{register}()"
        );
    }
    // By `whom`, as the built-in functions have it.
    let _ = write!(
        text,
        "  %rows = mul i32 %z, %ny\n  %row = add i32 %rows, %y\n  %before = mul i32 %row, %nx\n  %own = add i32 %before, %x\n\
         \x20 %place = getelementptr [{items} x i32], ptr addrspace(3) @quipu_states, i32 0, i32 %own\n\
         \x20 switch i32 %whom, label %here [\n    i32 1, label %again\n    i32 2, label %all\n  ]\n\
         here:\n  %active = call i32 asm sideeffect \"activemask.b32 $0;\", \"=r\"() convergent\n  br label %new\n\
         all:\n  %layer = mul i32 %nx, %ny\n  %items = mul i32 %layer, %nz\n  %first = and i32 %own, -32\n\
         \x20 %left = sub i32 %items, %first\n  %is_full = icmp uge i32 %left, 32\n  %short = and i32 %left, 31\n\
         \x20 %bit = shl i32 1, %short\n  %bits = sub i32 %bit, 1\n  %whole = select i1 %is_full, i32 -1, i32 %bits\n\
         \x20 br label %new\n\
         new:\n  %told = phi i32 [ %active, %here ], [ %whole, %all ]\n  store i32 %told, ptr addrspace(3) %place\n  br label %meet\n\
         again:\n  %kept = load i32, ptr addrspace(3) %place\n  br label %meet\n\
         meet:\n  %mask = phi i32 [ %told, %new ], [ %kept, %again ]\n\
         \x20 call void @llvm.nvvm.bar.warp.sync(i32 %mask)\n  ret void\n}}\n"
    );
    Ok(text)
}
