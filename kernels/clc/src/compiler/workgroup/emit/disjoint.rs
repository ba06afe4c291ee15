//! Versions of the kernel for launches whose arguments share no memory.
//!
//! Two arguments may be for the same memory, so a write through one of them may change what is read
//! through the other. Where that keeps accesses in their order, as [`stages`](super::super::stages)
//! has it, launches that pass different memory run a version of their own. Its accesses tell the
//! optimiser which argument they are of.

use super::super::graph::Graph;
use super::super::guard::Guard;
use super::Emitter;
use crate::compiler::llvm::*;
use crate::compiler::{Fault, program};
use std::collections::HashMap;

/// The launch's number that is not 0 if no two arguments share memory.
const ARE_DISJOINT: usize = 29;

/// The memory of arguments.
#[derive(Default)]
pub(super) struct Disjoint {
    /// True in a version for launches whose arguments share none.
    pub(super) are: bool,
    /// True if fewer accesses of the version before would keep their order there.
    pub(super) would_help: bool,
    /// What LLVM is told of an access through a parameter: its own memory, and that of the others.
    scopes: HashMap<Value, [Value; 2]>,
}

impl Emitter {
    /// Writes a version of the kernel for groups for which these guards hold, and one more for
    /// launches whose arguments share no memory, if that is wanted and helps.
    pub(in super::super) fn versions(
        &mut self,
        graph: &Graph,
        guards: &[&Guard],
        by_memory: bool,
        after: Block,
    ) -> Result<(), Fault> {
        let start = self.here();
        let any = self.block("any");
        self.go_on(any);
        self.begin_notes(guards);
        self.disjoint.would_help = false;
        self.version(graph, after)?;
        self.go_on(start);
        if !by_memory || !self.disjoint.would_help {
            LLVMBuildBr(self.builder, any);
            return Ok(());
        }
        let disjoint = self.block("disjoint");
        let are = self.compared(compare::NE, self.info[ARE_DISJOINT], self.wide(0));
        LLVMBuildCondBr(self.builder, are, disjoint, any);
        self.go_on(disjoint);
        self.disjoint.are = true;
        self.begin_notes(guards);
        self.version(graph, after)?;
        self.disjoint.are = false;
        Ok(())
    }

    /// Says of a copy of an access whose memory it is of, if no other argument shares that.
    pub(super) fn set_scopes(&mut self, access: Value, copy: Value) {
        if !self.disjoint.are {
            return;
        }
        let mut from = LLVMGetOperand(access, u32::from(access.opcode() == Some(op::STORE)));
        while let Some(op::GEP | op::BIT_CAST | op::ADDRESS_SPACE_CAST) = from.opcode() {
            from = LLVMGetOperand(from, 0);
        }
        if self.disjoint.scopes.is_empty() {
            self.disjoint.scopes = self.scopes();
        }
        if let Some(scopes) = self.disjoint.scopes.get(&from) {
            for (name, scopes) in ["alias.scope", "noalias"].into_iter().zip(scopes) {
                LLVMSetMetadata(copy, metadata_kind(self.context, name), *scopes);
            }
        }
    }

    fn scopes(&self) -> HashMap<Value, [Value; 2]> {
        let node = |operands: &[Metadata]| {
            LLVMMDNodeInContext2(self.context, operands.as_ptr(), operands.len())
        };
        let name =
            |name: &str| LLVMMDStringInContext2(self.context, name.as_ptr().cast(), name.len());
        let arguments = node(&[name("arguments")]);
        let parameters = parameters(self.kernel).into_iter().enumerate();
        let pointers: Vec<(Value, Metadata)> = parameters
            .filter(|(at, parameter)| {
                parameter.ty().kind() == kind::POINTER
                    && program::by_value(self.kernel, *at).is_none()
            })
            .map(|(at, parameter)| (parameter, node(&[name(&at.to_string()), arguments])))
            .collect();
        let of = |parameter: Value, is_own: bool| {
            let scopes = pointers
                .iter()
                .filter(|(one, _)| (*one == parameter) == is_own);
            let scopes: Vec<Metadata> = scopes.map(|(_, scope)| *scope).collect();
            LLVMMetadataAsValue(self.context, node(&scopes))
        };
        let each = pointers
            .iter()
            .map(|(one, _)| (*one, [of(*one, true), of(*one, false)]));
        each.collect()
    }
}
