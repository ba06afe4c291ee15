//! Loops that are not unrolled as a kernel is read.
//!
//! A loop around another one that ends by what is in memory (an insertion into what is sorted)
//! would become many copies of that, each of which is masked or scalar on its own.

use super::graph::{End, Graph, Loop};
use crate::compiler::Fault;
use crate::compiler::llvm::*;
use std::collections::{HashMap, HashSet};

/// Marks the loops of a kernel that are not to be unrolled.
pub(in crate::compiler) fn keep_loops(context: Context, kernel: Value) -> Result<(), Fault> {
    let graph = Graph::new(kernel, &HashMap::new());
    let loops = graph.loops();
    for outer in &loops {
        let mut within = loops
            .iter()
            .filter(|inner| inner.header != outer.header && outer.nodes[inner.header]);
        if !within.any(|inner| ends_by_memory(&graph, inner)) {
            continue;
        }
        for at in graph.before[outer.header]
            .iter()
            .filter(|at| outer.nodes[**at])
        {
            if let End::Branch(Some(branch)) = graph.nodes[*at].end
                && !is_asked_for(context, branch)
            {
                let kind = metadata_kind(context, "llvm.loop");
                LLVMSetMetadata(branch, kind, mark(context)?);
            }
        }
    }
    Ok(())
}

/// True if a loop may end by what was read in it.
fn ends_by_memory(graph: &Graph, of: &Loop) -> bool {
    let within = (0..graph.nodes.len()).filter(|at| of.nodes[*at]);
    let exits = within.filter_map(|at| match graph.nodes[at].end {
        End::Branch(Some(branch)) if graph.nodes[at].next.iter().any(|next| !of.nodes[*next]) => {
            Some(branch)
        }
        _ => None,
    });
    let mut open: Vec<Value> = exits
        .filter(|branch| LLVMGetNumOperands(*branch) > 1)
        .map(|branch| LLVMGetOperand(branch, 0))
        .collect();
    let mut seen = HashSet::new();
    while let Some(value) = open.pop() {
        let is_within = graph.home.get(&value).is_some_and(|home| of.nodes[*home]);
        if !is_within || !seen.insert(value) {
            continue;
        }
        match value.opcode() {
            Some(op::LOAD) => return true,
            // What it was a turn ago.
            Some(op::PHI) if graph.home[&value] == of.header => {}
            _ => open.extend(value.operands()),
        }
    }
    false
}

/// True if the program's text says how a loop is to be unrolled.
fn is_asked_for(context: Context, branch: Value) -> bool {
    let Some(node) = LLVMGetMetadata(branch, metadata_kind(context, "llvm.loop")).some() else {
        return false;
    };
    let properties = node_operands(node).into_iter().skip(1);
    let names = properties.filter_map(|property| {
        let first = node_operands(property).first().copied()?;
        metadata_string(first)
    });
    let mut names = names;
    names.any(|name| name.starts_with("llvm.loop.unroll"))
}

/// The metadata of a loop that is not to be unrolled. (Only text makes such metadata.)
fn mark(context: Context) -> Result<Value, Fault> {
    const TEXT: &str = "!properties = !{!0}\n\
        !0 = distinct !{!0, !1}\n\
        !1 = !{!\"llvm.loop.unroll.disable\"}\n";
    let mut module = Module::NULL;
    let mut message = std::ptr::null_mut();
    if LLVMParseIRInContext(
        context,
        buffer(TEXT.as_bytes()),
        &raw mut module,
        &raw mut message,
    ) != 0
    {
        return Err(Fault::Failed(string(message)));
    }
    let mut mark = Value::NULL;
    LLVMGetNamedMetadataOperands(module, c"properties".as_ptr(), &raw mut mark);
    Ok(mark)
}
