//! Numbers that the optimiser does not know, and addresses that are moved by them.

use super::super::stages::{Stage, Stages};
use super::{Emitter, Item, Version};
use crate::compiler::llvm::*;
use std::collections::HashMap;

impl Version<'_> {
    /// The nodes that work-items come to from one on before they stop.
    pub(super) fn region(&self, start: usize) -> Vec<usize> {
        let mut region = vec![start];
        let mut at = 0;
        while let Some(node) = region.get(at).copied() {
            at += 1;
            for to in &self.graph.nodes[node].next {
                if !self.cuts.contains_key(&(node, *to)) && !region.contains(to) {
                    region.push(*to);
                }
            }
        }
        region
    }
}

impl Emitter {
    /// A constant as a number that the optimiser does not know.
    pub(super) fn hidden(&mut self, constant: Value) -> Value {
        if let Some(hidden) = self.hidden.get(&constant) {
            return *hidden;
        }
        let hidden = self.hide(constant);
        self.hidden.insert(constant, hidden);
        hidden
    }

    fn hide(&self, constant: Value) -> Value {
        let place = self.alloca(constant.ty(), false);
        let here = self.here();
        self.go_on(self.allocas);
        LLVMBuildStore(self.builder, constant, place);
        let hidden = self.load(constant.ty(), place);
        LLVMSetVolatile(hidden, 1);
        self.go_on(here);
        hidden
    }

    /// The stages of the accesses between a node and the next cuts.
    pub(super) fn stages(&mut self, version: &Version<'_>, start: usize) -> HashMap<Value, Stage> {
        let region = version.region(start);
        let of = |are_disjoint| {
            let stages = Stages {
                graph: version.graph,
                differs: &version.differs,
                side_by_side: &self.side_by_side,
                restricted: &self.restricted,
                are_disjoint,
                layout: self.layout,
                order: &version.order,
                repeated: &version.one_by_one,
            };
            stages.of(&region)
        };
        let stages = of(self.disjoint.are);
        if !stages.is_empty() && !self.disjoint.would_help && !self.disjoint.are {
            self.disjoint.would_help = of(true) != stages;
        }
        stages
    }

    /// Has an access that was written last be of a stage.
    pub(super) fn set_stage(&mut self, access: Value, stage: Stage, item: &Item) {
        let here = self.here();
        LLVMPositionBuilderBefore(self.builder, access);
        let nothing = match stage {
            Stage::Number(number) => {
                while self.nothings.len() < number {
                    let nothing = self.hide(self.wide(0));
                    self.nothings.push(nothing);
                    LLVMPositionBuilderBefore(self.builder, access);
                }
                self.nothings[number - 1]
            }
            Stage::Own => {
                let nothing = self.hidden(self.wide(0));
                LLVMPositionBuilderBefore(self.builder, access);
                self.operate(op::AND, item.in_strip, nothing)
            }
        };
        let operand = u32::from(access.opcode() == Some(op::STORE));
        let address = self.at(self.int(8), LLVMGetOperand(access, operand), nothing);
        LLVMSetOperand(access, operand, address);
        self.go_on(here);
    }
}
