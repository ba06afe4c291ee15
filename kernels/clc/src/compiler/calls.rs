//! Functions of a program that stay functions.
//!
//! Everything is inlined into a kernel: so loops over work-items may be vectors, and a barrier may
//! be anywhere. A kernel that calls a large function in hundreds of places would become so large
//! that the optimiser takes minutes. Such a function is called instead, if each work-item runs it
//! for itself alone: it has no barrier, asks for no number of the work-item, and takes part in no
//! order of threads.

use super::llvm::*;
use super::{forms, library, variables, workgroup};
use std::collections::{HashMap, HashSet};

/// The beginning of the names of functions that stay.
const KEPT: &str = "quipu.kept.";

/// The fewest copies of a function that inlining may not make in a kernel, and the fewest
/// instructions of all of them.
const COPIES: usize = 256;
const INSTRUCTIONS: usize = 8192;

/// True if a function of this name is called, and not inlined.
pub(super) fn are_kept(name: &str) -> bool {
    let mut kept = [KEPT, library::CALLED, forms::CALLED].iter();
    kept.any(|start| name.starts_with(start))
}

/// True if an instruction calls a function of the program.
pub(super) fn is_call(instruction: Value) -> bool {
    let callee = instruction.callee();
    callee.is_some_and(|callee| callee.starts_with(KEPT))
}

/// Has the functions of a module stay that are too much to inline.
pub(super) fn keep(context: Context, module: Module, kernels: &[Value]) {
    let defined: Vec<Value> = module
        .functions()
        .into_iter()
        .filter(|function| LLVMIsDeclaration(*function) == 0)
        .collect();
    let mut callers: HashMap<Value, Vec<Value>> = HashMap::new();
    let mut sizes: HashMap<Value, usize> = HashMap::new();
    for function in &defined {
        let all: Vec<Value> = instructions(*function).collect();
        sizes.insert(*function, all.len());
        for called in all.iter().filter_map(|one| called(*one)) {
            callers.entry(called).or_default().push(*function);
        }
    }
    let shared = variables::of(module);
    let mut copies = Copies {
        callers,
        sizes,
        shared,
        kernels: kernels.to_vec(),
        known: HashMap::new(),
        kept: HashSet::new(),
        open: HashSet::new(),
    };
    for function in &defined {
        copies.of(*function);
    }
    let noinline = LLVMCreateEnumAttribute(context, attribute_kind("noinline"), 0);
    for function in copies.kept {
        LLVMAddAttributeAtIndex(function, u32::MAX, noinline);
        let name = format!("{KEPT}{}", function.name());
        LLVMSetValueName2(function, name.as_ptr().cast(), name.len());
    }
}

/// The number of copies of functions that inlining makes in each kernel.
struct Copies {
    /// The functions that call one, each as often as it does.
    callers: HashMap<Value, Vec<Value>>,
    sizes: HashMap<Value, usize>,
    shared: Vec<Value>,
    kernels: Vec<Value>,
    known: HashMap<Value, Vec<usize>>,
    kept: HashSet<Value>,
    /// Those that are being counted: one of them calls itself, which is refused later.
    open: HashSet<Value>,
}

impl Copies {
    /// Those of a function, by kernel.
    fn of(&mut self, function: Value) -> Vec<usize> {
        if let Some(known) = self.known.get(&function) {
            return known.clone();
        }
        let mut copies: Vec<usize> = self
            .kernels
            .iter()
            .map(|kernel| usize::from(*kernel == function))
            .collect();
        if !self.open.insert(function) {
            return copies;
        }
        for caller in self.callers.get(&function).cloned().unwrap_or_default() {
            let of_caller = self.of(caller);
            let is_kept = self.kept.contains(&caller);
            for (own, of_caller) in copies.iter_mut().zip(of_caller) {
                let more = if is_kept { of_caller.min(1) } else { of_caller };
                *own = own.saturating_add(more);
            }
        }
        self.open.remove(&function);
        let most = copies.iter().copied().max().unwrap_or(0);
        self.known.insert(function, copies.clone());
        let instructions = self.sizes[&function].saturating_mul(most);
        if most >= COPIES
            && instructions >= INSTRUCTIONS
            && !self.kernels.contains(&function)
            && !are_kept(&function.name())
            && !has_attribute(function, "alwaysinline")
            && self.may_stay(function, &mut Vec::new())
        {
            self.kept.insert(function);
        }
        copies
    }

    /// True if a work-item may run a function by itself, and all that it calls, those in `within`
    /// among them.
    fn may_stay(&self, function: Value, within: &mut Vec<Value>) -> bool {
        if within.contains(&function) || workgroup::uses(function, &self.shared) {
            return false;
        }
        within.push(function);
        let may_stay = instructions(function).all(|one| match one.opcode() {
            Some(op::CALL) => match called(one) {
                Some(called) if LLVMIsDeclaration(called) == 0 => self.may_stay(called, within),
                Some(called) => {
                    let name = called.name();
                    name == "printf"
                        || name.starts_with("llvm.")
                        || name.starts_with(library::MATHEMATICS)
                }
                None => false,
            },
            Some(op::FENCE) => false,
            _ => !workgroup::is_shared(one),
        });
        within.pop();
        may_stay && !workgroup::uses_local(function)
    }
}

fn has_attribute(function: Value, name: &str) -> bool {
    let kind = attribute_kind(name);
    let attribute = LLVMGetEnumAttributeAtIndex(function, u32::MAX, kind);
    attribute.some().is_some()
}

fn instructions(function: Value) -> impl Iterator<Item = Value> {
    blocks(function).into_iter().flat_map(Block::instructions)
}

/// The function that an instruction calls.
fn called(instruction: Value) -> Option<Value> {
    let is_call = instruction.opcode() == Some(op::CALL);
    is_call
        .then(|| LLVMGetCalledValue(instruction))
        .and_then(|called| LLVMIsAFunction(called).some())
}

/// A kernel, and the functions that stay and that it calls.
pub(super) fn with_kept(kernel: Value) -> Vec<Value> {
    let mut all = vec![kernel];
    let mut at = 0;
    while let Some(function) = all.get(at).copied() {
        at += 1;
        for called in instructions(function)
            .filter(|one| is_call(*one))
            .filter_map(called)
        {
            if !all.contains(&called) {
                all.push(called);
            }
        }
    }
    all
}
