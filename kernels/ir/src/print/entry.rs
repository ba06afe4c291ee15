//! The parts of entry functions, and the loops over blocks of the dialects that run on devices.

use crate::module::{LaunchBounds, SharedLength};
use crate::types::Scalar;

use super::dialect::Language;
use super::protocol::{EntryKind, EntryParameter};

/// A parameter of an entry function.
#[derive(Clone, Debug)]
pub(super) struct EntryDeclaration {
    pub(super) parameter: EntryParameter,
    /// Its type; for pointers, the type of the elements.
    pub(super) type_name: String,
    /// Of pointers: whether the kernel writes there.
    pub(super) mutable: bool,
}

/// A block-shared array.
#[derive(Clone, Debug)]
pub(super) struct SharedDeclaration {
    pub(super) name: String,
    /// Its length: a number or the name of a parameter.
    pub(super) length: String,
    pub(super) length_kind: SharedLength,
    /// The type of an element, in memory.
    pub(super) element: String,
    /// An element of zeros, if all are zero when a block begins.
    pub(super) zero: Option<String>,
}

/// The parts of an entry function.
#[derive(Clone, Debug)]
pub(super) struct EntryParts {
    pub(super) name: String,
    pub(super) dimensions: usize,
    /// The bounds that are promised of its blocks.
    pub(super) bounds: LaunchBounds,
    /// The integer type of the index width.
    pub(super) index: &'static str,
    pub(super) declarations: Vec<EntryDeclaration>,
    pub(super) shared: Vec<SharedDeclaration>,
    /// The work of a thread, as lines.
    pub(super) body: String,
    /// The body is left early.
    pub(super) leaves: bool,
    /// There may be a fault to record.
    pub(super) records: bool,
    /// There are barriers.
    pub(super) barriers: bool,
    /// There are barriers that count.
    pub(super) counts: bool,
    /// There are barriers of the grid.
    pub(super) grid_barriers: bool,
    /// Integers are divided, by a number that may be zero.
    pub(super) divides: bool,
    /// There are `f64`s.
    pub(super) doubles: bool,
    /// There are atomics of 64 bits.
    pub(super) wide_atomics: bool,
}

impl EntryParts {
    /// The parameter of the words of barriers of the grid, if there is one.
    pub(super) fn grid_words(&self) -> Option<&EntryDeclaration> {
        let is_it = |kind| matches!(kind, EntryKind::GridBarrier);
        let mut declarations = self.declarations.iter();
        declarations.find(|declaration| is_it(declaration.parameter.kind))
    }
}

/// The number of loops over blocks, one per axis of the hardware.
pub(super) fn axes(dimensions: usize) -> usize {
    dimensions.min(3)
}

/// The depth of the body in an entry function, in so many loops over blocks.
pub(super) fn depth_on_device(loops: usize, leaves: bool) -> usize {
    1 + loops + usize::from(leaves)
}

/// Of an axis of the hardware: the thread's number, the block's, and how many blocks run, if that
/// may be fewer than there are.
pub(super) struct Axis {
    pub(super) thread: String,
    pub(super) block: String,
    pub(super) blocks: Option<String>,
}

/// The body of an entry function that runs on a device: the context, the loops over blocks, shared
/// memory set to zero, and the kernel's body.
pub(super) fn device_body(
    language: &dyn Language,
    parts: &EntryParts,
    axis: impl Fn(usize) -> Axis,
) -> String {
    let EntryParts {
        dimensions, index, ..
    } = parts;
    let dimensions = *dimensions;
    let mut out = String::new();
    let mut line = |depth: usize, text: &str| {
        out.push_str(&"    ".repeat(depth));
        out.push_str(text);
        out.push('\n');
    };
    line(1, "quipu_context context;");
    line(
        1,
        &format!("{}quipu = &context;", language.context_pointer()),
    );
    line(1, "context.launch = launch;");
    if parts.records {
        line(1, "context.fault = fault;");
    }
    if let Some(declaration) = parts.grid_words() {
        let name = &declaration.parameter.name;
        line(1, &format!("context.grid_barrier = {name};"));
    }
    for array in &parts.shared {
        line(1, &format!("context.{0} = {0};", array.name));
        if array.length_kind == SharedLength::Launch {
            line(1, &format!("context.{0} = {0};", array.length));
        }
    }
    if parts.counts {
        line(1, "context.count = &quipu_count;");
    }
    // The hardware's first axes are the last dimensions; its third has all others.
    let merged = dimensions.saturating_sub(2);
    for d in merged..dimensions {
        line(
            1,
            &format!("context.thread[{d}] = {};", axis(dimensions - 1 - d).thread),
        );
    }
    match merged {
        0 => {}
        1 => line(1, &format!("context.thread[0] = {};", axis(2).thread)),
        _ => {
            line(1, &format!("{index} quipu_rest = {};", axis(2).thread));
            for d in (0..merged).rev() {
                line(
                    1,
                    &format!("context.thread[{d}] = quipu_rest % launch.block_threads[{d}];"),
                );
                line(1, &format!("quipu_rest /= launch.block_threads[{d}];"));
            }
            let product: Vec<_> = (0..merged)
                .map(|d| format!("launch.grid_blocks[{d}]"))
                .collect();
            line(
                1,
                &format!("const {index} quipu_blocks = {};", product.join(" * ")),
            );
            line(1, &format!("{index} quipu_block;"));
        }
    }
    let mut depth = 1;
    // The loops, or, where the hardware's blocks are as many as there are, only the beginnings of
    // their bodies.
    let mut enter = |depth: &mut usize, name: &str, end: &str, axis: Axis| {
        let Axis { block, blocks, .. } = axis;
        match blocks {
            Some(blocks) => {
                line(
                    *depth,
                    &format!("for ({name} = {block}; {name} < {end}; {name} += {blocks}) {{"),
                );
                *depth += 1;
            }
            None => line(*depth, &format!("{name} = {block};")),
        }
    };
    if merged == 1 {
        enter(
            &mut depth,
            "context.block[0]",
            "launch.grid_blocks[0]",
            axis(2),
        );
    } else if merged > 1 {
        let quipu_block = "quipu_block";
        enter(&mut depth, quipu_block, "quipu_blocks", axis(2));
    }
    for d in merged..dimensions {
        let name = format!("context.block[{d}]");
        let end = format!("launch.grid_blocks[{d}]");
        enter(&mut depth, &name, &end, axis(dimensions - 1 - d));
    }
    let mut line = |depth: usize, text: &str| {
        out.push_str(&"    ".repeat(depth));
        out.push_str(text);
        out.push('\n');
    };
    if merged > 1 {
        line(depth, "quipu_rest = quipu_block;");
        for d in (0..merged).rev() {
            line(
                depth,
                &format!("context.block[{d}] = quipu_rest % launch.grid_blocks[{d}];"),
            );
            line(depth, &format!("quipu_rest /= launch.grid_blocks[{d}];"));
        }
    }
    if !parts.shared.is_empty() {
        let barrier = language.barrier(None);
        let mut number = "context.thread[0]".to_owned();
        let mut threads = "launch.block_threads[0]".to_owned();
        for d in 1..dimensions {
            if d > 1 {
                number = format!("({number})");
            }
            number = format!("{number} * launch.block_threads[{d}] + context.thread[{d}]");
            threads = format!("{threads} * launch.block_threads[{d}]");
        }
        if depth > 1 {
            // The block before may still read the memory that is set to zero here.
            line(depth, &format!("{barrier};"));
        }
        let zeroed = parts.shared.iter();
        let zeroed: Vec<_> = zeroed
            .filter_map(|array| Some((array, array.zero.as_ref()?)))
            .collect();
        for (array, zero) in &zeroed {
            line(
                depth,
                &format!(
                    "for ({index} quipu_at = {number}; quipu_at < {}; quipu_at += {threads})",
                    array.length
                ),
            );
            line(depth + 1, &format!("{}[quipu_at] = {zero};", array.name));
        }
        if !zeroed.is_empty() {
            line(depth, &format!("{barrier};"));
        }
    }
    if parts.leaves {
        line(depth, "{");
    }
    out.push_str(&parts.body);
    let mut line = |depth: usize, text: &str| {
        out.push_str(&"    ".repeat(depth));
        out.push_str(text);
        out.push('\n');
    };
    if parts.leaves {
        line(depth, "}");
        line(depth, "quipu_next: ;");
    }
    while depth > 1 {
        depth -= 1;
        line(depth, "}");
    }
    out
}

/// The declarations of an entry function's parameters that are the same in all dialects that run on
/// devices.
pub(super) fn device_parameter(
    language: &dyn Language,
    declaration: &EntryDeclaration,
    restrict: &str,
) -> Option<String> {
    let EntryDeclaration {
        parameter: EntryParameter { name, kind, .. },
        type_name,
        mutable,
    } = declaration;
    Some(match kind {
        EntryKind::Pointer { .. } => {
            let pointer = language.pointer(type_name, crate::Space::Global, *mutable);
            // Memory that a launch writes overlaps no other argument. But other threads write
            // there, too, so a compiler may not keep values read there in registers over a barrier.
            let restrict = if *mutable { "" } else { restrict };
            format!("{pointer}{restrict}{name}")
        }
        EntryKind::Fault | EntryKind::GridBarrier => {
            let word = language.scalar(Scalar::U32);
            format!(
                "{}{name}",
                language.pointer(word, crate::Space::Global, true)
            )
        }
        EntryKind::SharedPointer { .. } => {
            format!(
                "{}{name}",
                language.pointer(type_name, crate::Space::Shared, true)
            )
        }
        _ => format!("{type_name} {name}"),
    })
}
