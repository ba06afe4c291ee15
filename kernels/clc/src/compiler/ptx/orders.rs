//! Memory orders, as PTX has them.
//!
//! LLVM 18 and 19 have no code for fences and for ordered loads and stores there, and leave out the
//! order of an atomic change. So each atomic access becomes a relaxed one between barriers of
//! memory, which all versions of LLVM have:
//!
//! | order | before the access | after it |
//! |---|---|---|
//! | acquire | | `membar` |
//! | release | `membar` | |
//! | acquire and release, sequentially consistent | `membar` | `membar` |
//!
//! A fence of a work-group is `membar.cta`, and any other `membar.gl`. No memory of these devices
//! has atomic operations together with other devices, so a wider scope is that of the device.

/// The functions that [`kept`] calls.
pub(super) const DECLARED: &str =
    "declare void @llvm.nvvm.membar.gl()\ndeclare void @llvm.nvvm.membar.cta()\n";

const OF_DEVICE: &str = "  call void @llvm.nvvm.membar.gl()\n";
const OF_GROUP: &str = "  call void @llvm.nvvm.membar.cta()\n";

/// The scope of fences between the work-items of a group: see `FENCE` in the built-in functions.
const SCOPE_OF_GROUP: &str = "syncscope(\"singlethread\")";

const ORDERS: [&str; 6] = [
    "unordered",
    "monotonic",
    "acquire",
    "release",
    "acq_rel",
    "seq_cst",
];

/// An instruction whose order PTX keeps: one line of LLVM's text, or several.
pub(super) fn kept(line: &str) -> String {
    let instruction = line.trim_start();
    if instruction.starts_with("fence ") {
        let is_of_group = instruction.contains(SCOPE_OF_GROUP);
        return if is_of_group { OF_GROUP } else { OF_DEVICE }.to_owned();
    }
    let operation = match instruction.split_once(" = ") {
        Some((name, operation)) if name.starts_with('%') => operation,
        _ => instruction,
    };
    let is_atomic = ["load atomic ", "store atomic ", "atomicrmw ", "cmpxchg "]
        .iter()
        .any(|start| operation.starts_with(start));
    // Orders stand behind the operands. The alignment and metadata follow.
    let Some(end) = line.rfind(", align ").filter(|_| is_atomic) else {
        return format!("{line}\n");
    };
    let (mut operands, after) = line.split_at(end);
    let mut orders = Vec::new();
    while let Some((rest, order)) = operands.rsplit_once(' ')
        && ORDERS.contains(&order)
    {
        orders.push(order);
        operands = rest;
    }
    if let Some((rest, scope)) = operands.rsplit_once(' ')
        && scope.starts_with("syncscope(")
    {
        operands = rest;
    }
    // Local memory orders the work-items of its own group alone.
    let barrier = match operands.contains("ptr addrspace(3)") {
        true => OF_GROUP,
        false => OF_DEVICE,
    };
    let has = |wanted: &[&str]| orders.iter().any(|order| wanted.contains(order));
    let before = if has(&["release", "acq_rel", "seq_cst"]) {
        barrier
    } else {
        ""
    };
    let behind = if has(&["acquire", "acq_rel", "seq_cst"]) {
        barrier
    } else {
        ""
    };
    let relaxed = vec!["monotonic"; orders.len()].join(" ");
    format!("{before}{operands} {relaxed}{after}\n{behind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_accesses_become_relaxed_ones_between_barriers_of_memory() {
        const ALONE: [&str; 2] = ["", ""];
        let cases = [
            (
                "  %a = load i32, ptr %b, align 4",
                "  %a = load i32, ptr %b, align 4",
                ALONE,
            ),
            (
                "  %a = load atomic volatile i32, ptr addrspace(1) %b acquire, align 4, !dbg !1",
                "  %a = load atomic volatile i32, ptr addrspace(1) %b monotonic, align 4, !dbg !1",
                ["", OF_DEVICE],
            ),
            (
                "  store atomic i32 1, ptr %b syncscope(\"agent\") release, align 4",
                "  store atomic i32 1, ptr %b monotonic, align 4",
                [OF_DEVICE, ""],
            ),
            (
                "  %a = atomicrmw add ptr addrspace(3) %b, i32 1 seq_cst, align 4",
                "  %a = atomicrmw add ptr addrspace(3) %b, i32 1 monotonic, align 4",
                [OF_GROUP, OF_GROUP],
            ),
            (
                "  %a = atomicrmw volatile add ptr %b, i32 1 seq_cst, align 4",
                "  %a = atomicrmw volatile add ptr %b, i32 1 monotonic, align 4",
                [OF_DEVICE, OF_DEVICE],
            ),
            (
                "  %a = atomicrmw add ptr %acquire, i32 1 monotonic, align 4",
                "  %a = atomicrmw add ptr %acquire, i32 1 monotonic, align 4",
                ALONE,
            ),
            (
                "  %a = cmpxchg weak ptr %b, i32 %c, i32 %d release acquire, align 4",
                "  %a = cmpxchg weak ptr %b, i32 %c, i32 %d monotonic monotonic, align 4",
                [OF_DEVICE, OF_DEVICE],
            ),
        ];
        for (line, relaxed, [before, behind]) in cases {
            assert_eq!(kept(line), format!("{before}{relaxed}\n{behind}"));
        }
        assert_eq!(kept("  fence acq_rel, !dbg !1"), OF_DEVICE);
        assert_eq!(
            kept("  fence syncscope(\"singlethread\") release"),
            OF_GROUP
        );
    }
}
