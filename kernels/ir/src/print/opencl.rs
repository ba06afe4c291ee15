//! OpenCL C 1.2, and the features of extensions and later versions where a device offers it.

use crate::module::{LaunchBounds, SharedId, SharedLength};
use crate::operation::{AtomicOperation, FenceOrder, MathFunction, Scope, WarpOperation};
use crate::types::{Scalar, Space};

use super::c99::{library_name, replacement};
use super::dialect::{AtomicCall, Language, Possible};
use super::entry::{self, Axis, EntryParts};
use super::helpers::{Helpers, call_on, short, unsigned, width};
use super::protocol::EntryKind;
use super::{OpenClFeatures, Options};

/// OpenCL C.
pub(super) struct OpenCl {
    pub(super) features: OpenClFeatures,
}

const BARRIER: &str = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)";

fn address_space(space: Space) -> &'static str {
    match space {
        Space::Global => "__global",
        Space::Shared => "__local",
        Space::Private => "__private",
    }
}

/// The size of a kernel's work-groups for the compiler, before its type.
fn required_size(bounds: &LaunchBounds) -> String {
    let threads = &bounds.block_threads;
    let from_last = |d: usize| threads.len().checked_sub(d + 1).map_or(1, |at| threads[at]);
    let others: u64 = threads.iter().rev().skip(2).product();
    match threads.is_empty() {
        true => String::new(),
        false => format!(
            "__attribute__((reqd_work_group_size({}, {}, {others}))) ",
            from_last(0),
            from_last(1)
        ),
    }
}

impl Language for OpenCl {
    fn name(&self) -> &'static str {
        "OpenCL C"
    }

    fn scalar(&self, scalar: Scalar) -> &'static str {
        match scalar {
            Scalar::Bool => "bool",
            Scalar::I8 => "char",
            Scalar::I16 => "short",
            Scalar::I32 => "int",
            Scalar::I64 | Scalar::SignedIndex => "long",
            Scalar::U8 => "uchar",
            // Floats of 16 bits are their bits.
            Scalar::U16 | Scalar::F16 | Scalar::Bf16 => "ushort",
            Scalar::U32 => "uint",
            Scalar::U64 | Scalar::Index => "ulong",
            Scalar::F32 => "float",
            Scalar::F64 => "double",
        }
    }

    fn suffix(&self, scalar: Scalar) -> &'static str {
        match scalar {
            Scalar::U32 => "u",
            Scalar::I64 => "L",
            Scalar::U64 => "UL",
            _ => "",
        }
    }

    fn offers(&self, scalar: Scalar) -> Possible<()> {
        if scalar == Scalar::F64 && !self.features.doubles {
            return Err("`f64` on a device without `cl_khr_fp64`".into());
        }
        Ok(())
    }

    fn pointer(&self, element: &str, space: Space, mutable: bool) -> String {
        let constant = if mutable { "" } else { "const " };
        format!("{} {constant}{element} *", address_space(space))
    }

    fn context_pointer(&self) -> String {
        "__private const quipu_context *".into()
    }

    fn function(&self) -> &'static str {
        "inline "
    }

    fn constant(&self) -> &'static str {
        "__constant"
    }

    fn cold(&self) -> &'static str {
        ""
    }

    fn aggregate(&self, type_name: &str, fields: &str) -> String {
        format!("({type_name}){{{fields}}}")
    }

    fn float_of_bits(&self, _helpers: &mut Helpers, scalar: Scalar, bits: &str) -> String {
        format!("as_{}({bits})", self.scalar(scalar))
    }

    fn bits_of_float(&self, _helpers: &mut Helpers, scalar: Scalar, value: &str) -> String {
        format!("as_{}({value})", self.scalar(unsigned(scalar)))
    }

    fn math(
        &self,
        function: Option<MathFunction>,
        _scalar: Scalar,
        _helpers: &mut Helpers,
    ) -> String {
        library_name(function).into()
    }

    fn count_ones(&self, _wide: bool, value: &str) -> String {
        format!("popcount({value})")
    }

    fn leading_zeros(&self, _wide: bool, value: &str) -> String {
        format!("clz({value})")
    }

    fn claim(&self, record: &str, value: &str) -> String {
        format!("atomic_cmpxchg({record}, 0u, {value}) == 0")
    }

    fn repeats(&self, barriers: bool) -> bool {
        self.features.repeats_beside_barriers || !barriers
    }

    fn barrier(&self, _site: Option<u32>) -> String {
        BARRIER.into()
    }

    fn barrier_count(&self, helpers: &mut Helpers, predicate: &str, _site: Option<u32>) -> String {
        helpers.add("quipu_barrier_count", |_| {
            format!(
                "/* A barrier; for how many threads of the block the predicate holds. */\n\
                 static inline uint quipu_barrier_count(__private const quipu_context *quipu, bool predicate)\n{{\n    \
                 {BARRIER};\n    \
                 if (get_local_id(0) == 0 && get_local_id(1) == 0 && get_local_id(2) == 0)\n        \
                 *quipu->count = 0;\n    {BARRIER};\n    if (predicate)\n        atomic_inc(quipu->count);\n    \
                 {BARRIER};\n    return *quipu->count;\n}}"
            )
        });
        format!("quipu_barrier_count(quipu, {predicate})")
    }

    fn grid_barrier(&self, _helpers: &mut Helpers, _site: Option<u32>) -> Possible {
        Err(
            "a barrier of the grid: its blocks need not run at the same time; launch a kernel for each step, or ask \
             `acc.has_grid_barrier()`"
                .into(),
        )
    }

    fn clock(&self, _helpers: &mut Helpers) -> Possible {
        Err("a clock".into())
    }

    fn fence(&self, _helpers: &mut Helpers, scope: Scope, order: FenceOrder) -> Possible {
        let order = match order {
            FenceOrder::Acquire => "memory_order_acquire",
            FenceOrder::Release => "memory_order_release",
            FenceOrder::SequentiallyConsistent => "memory_order_seq_cst",
        };
        match scope {
            // This fence is for the threads of a block alone, and for all orders: its weaker forms
            // order reads, or writes, alone.
            Scope::Block => Ok("mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)".into()),
            Scope::Device if self.features.ptx => {
                Ok("asm volatile(\"membar.gl;\" ::: \"memory\")".into())
            }
            Scope::Device if self.features.device_fence => Ok(format!(
                "atomic_work_item_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE, {order}, memory_scope_device)"
            )),
            Scope::Device => Err(
                "a fence for other blocks on a device without OpenCL C 2.0 or `__opencl_c_atomic_scope_device`; ask \
                 `acc.has_device_fence()`"
                    .into(),
            ),
            Scope::System => Err("a fence for the host and other devices".into()),
        }
    }

    fn atomic(&self, helpers: &mut Helpers, call: &AtomicCall<'_>) -> Possible {
        use AtomicOperation as A;
        let AtomicCall {
            operation,
            scalar,
            space,
            scope,
            pointer,
            operands,
        } = call;
        if *scope == Scope::System {
            return Err("an atomic operation for the host and other devices".into());
        }
        let wide = width(*scalar) == 64;
        if wide && !self.features.wide_atomics {
            return Err(
                "an atomic operation of 64 bits on a device without `cl_khr_int64_base_atomics` and \
                 `cl_khr_int64_extended_atomics`"
                    .into(),
            );
        }
        let prefix = if wide { "atom" } else { "atomic" };
        let name = match operation {
            A::Add => "add",
            A::Subtract => "sub",
            A::Minimum => "min",
            A::Maximum => "max",
            A::Exchange => "xchg",
            A::And => "and",
            A::Or => "or",
            A::Xor => "xor",
            A::CompareExchange => "cmpxchg",
            A::Increment | A::Decrement | A::Load | A::Store => "",
        };
        if scalar.is_integer() && !name.is_empty() {
            return Ok(format!(
                "{prefix}_{name}({pointer}, {})",
                operands.join(", ")
            ));
        }
        // Floats, and operations that OpenCL C lacks: by the bits.
        let (t, u) = (self.scalar(*scalar), self.scalar(unsigned(*scalar)));
        let space_name = address_space(*space);
        let what = format!("{operation:?}").to_lowercase();
        let helper =
            format!("quipu_atomic_{what}_{}{space_name}", short(*scalar)).replace("__", "_");
        helpers.add(&helper, |_| {
            let bits = format!("volatile {space_name} {u} *bits = (volatile {space_name} {u} *)place;");
            let of = |value: &str| format!("as_{u}({value})");
            match operation {
                // Whole words are read and written in one step; volatile, they are each time.
                A::Load => format!(
                    "static inline {t} {helper}(volatile {space_name} {t} *place)\n{{\n    return *place;\n}}"
                ),
                A::Store => format!(
                    "static inline void {helper}(volatile {space_name} {t} *place, {t} operand)\n{{\n    \
                     *place = operand;\n}}"
                ),
                A::CompareExchange => format!(
                    "static inline {t} {helper}(volatile {space_name} {t} *place, {t} expected, {t} replacement)\n{{\n    \
                     {bits}\n    return as_{t}({prefix}_cmpxchg(bits, {}, {}));\n}}",
                    of("expected"), of("replacement"),
                ),
                A::Exchange => format!(
                    "static inline {t} {helper}(volatile {space_name} {t} *place, {t} operand)\n{{\n    \
                     {bits}\n    return as_{t}({prefix}_xchg(bits, {}));\n}}",
                    of("operand"),
                ),
                _ => format!(
                    "static inline {t} {helper}(volatile {space_name} {t} *place, {t} operand)\n{{\n    \
                     {bits}\n    {u} seen = *bits, expected;\n    {t} old, replacement;\n    do {{\n        \
                     expected = seen;\n        old = as_{t}(seen);\n        replacement = {};\n        \
                     seen = {prefix}_cmpxchg(bits, expected, {});\n    }} while (seen != expected);\n    return old;\n}}",
                    replacement(*operation), of("replacement"),
                ),
            }
        });
        Ok(call_on(&helper, pointer, operands))
    }

    fn warp(
        &self,
        helpers: &mut Helpers,
        operation: WarpOperation,
        scalar: Scalar,
        operands: &[String],
    ) -> Possible {
        use WarpOperation as W;
        if !self.features.offers(operation) {
            // Then none is offered that the kernel uses, and a warp is one thread.
            return Ok(match operation {
                W::Size => "1u".into(),
                W::Lane => "0u".into(),
                W::ActiveMask => "1ul".into(),
                W::Ballot => format!("({} ? 1ul : 0ul)", operands[0]),
                W::All | W::Any | W::Shuffle | W::ShuffleUp | W::ShuffleDown | W::ShuffleXor => {
                    format!("({})", operands[0])
                }
            });
        }
        if self.features.ptx {
            return Ok(self.ptx_warp(helpers, operation, scalar, operands));
        }
        let ballot = |predicate: &str, helpers: &mut Helpers| {
            helpers.add("quipu_ballot", |_| {
                "static inline ulong quipu_ballot(bool predicate)\n{\n    \
                 const uint4 votes = sub_group_ballot(predicate);\n    \
                 return (ulong)votes.x | (ulong)votes.y << 32;\n}"
                    .to_owned()
            });
            format!("quipu_ballot({predicate})")
        };
        Ok(match operation {
            // Of full ones, as everywhere: the last of a block may have fewer threads.
            W::Size => "get_max_sub_group_size()".into(),
            W::Lane => "get_sub_group_local_id()".into(),
            W::All => format!("(sub_group_all({}) != 0)", operands[0]),
            W::Any => format!("(sub_group_any({}) != 0)", operands[0]),
            W::ActiveMask => ballot("true", helpers),
            W::Ballot => ballot(&operands[0], helpers),
            W::Shuffle | W::ShuffleUp | W::ShuffleDown | W::ShuffleXor => {
                let what = format!("{operation:?}").to_lowercase();
                let name = format!("quipu_{what}_{}", short(scalar));
                helpers.add(&name, |_| {
                    let t = self.scalar(scalar);
                    let carried = if scalar == Scalar::Bool { "int" } else { t };
                    let from = match operation {
                        W::Shuffle => "lane % get_max_sub_group_size()",
                        W::ShuffleUp => "get_sub_group_local_id() - lane",
                        W::ShuffleDown => "get_sub_group_local_id() + lane",
                        _ => "get_sub_group_local_id() ^ lane",
                    };
                    format!(
                        "static inline {t} {name}({t} value, uint lane)\n{{\n    const uint from = {from};\n    \
                         return ({t})sub_group_shuffle(({carried})value, from < get_sub_group_size() ? from : get_sub_group_local_id());\n}}"
                    )
                });
                format!("{name}({})", operands.join(", "))
            }
        })
    }

    fn format(&self, scalar: Scalar) -> (&'static str, &'static str) {
        match scalar {
            Scalar::F32 => ("%.9g", "float"),
            Scalar::F64 => ("%.17g", "double"),
            _ if scalar.is_signed() => ("%ld", "long"),
            _ => ("%lu", "ulong"),
        }
    }

    /// Its `%s` is for a literal alone, and NVIDIA's loses the context by another.
    fn chooses_texts(&self) -> bool {
        false
    }

    fn head(&self, options: &Options, parts: &EntryParts) -> String {
        let mut head = String::from("/* OpenCL C, printed by Quipu. */\n\n");
        let mut enable = |wanted: bool, extension: &str| {
            if wanted {
                head.push_str(&format!("#pragma OPENCL EXTENSION {extension} : enable\n"));
            }
        };
        enable(parts.doubles, "cl_khr_fp64");
        enable(parts.wide_atomics, "cl_khr_int64_base_atomics");
        enable(parts.wide_atomics, "cl_khr_int64_extended_atomics");
        enable(self.features.subgroups, "cl_khr_subgroups");
        enable(self.features.subgroup_ballot, "cl_khr_subgroup_ballot");
        enable(self.features.subgroup_shuffle, "cl_khr_subgroup_shuffle");
        if !options.contract && !options.fast_math {
            head.push_str("#pragma OPENCL FP_CONTRACT OFF\n");
        }
        head.push('\n');
        head
    }

    fn context_fields(&self, parts: &EntryParts) -> String {
        if parts.counts {
            "    __local uint *count;\n".into()
        } else {
            String::new()
        }
    }

    fn entry(&self, parts: &EntryParts) -> String {
        let parameters: Vec<_> = parts
            .declarations
            .iter()
            .filter_map(|declaration| entry::device_parameter(self, declaration, "restrict "))
            .map(|parameter| format!("    {parameter}"))
            .collect();
        let mut out = format!(
            "__kernel {}void {}(\n{})\n{{\n",
            required_size(&parts.bounds),
            parts.name,
            parameters.join(",\n")
        );
        for array in &parts.shared {
            if let SharedLength::Fixed(length) = array.length_kind {
                let (t, name) = (&array.element, &array.name);
                out.push_str(&format!("    __local {t} {name}[{length}];\n"));
            }
        }
        if parts.counts {
            out.push_str("    __local uint quipu_count;\n");
        }
        for declaration in &parts.declarations {
            if let EntryKind::Start { .. } = declaration.parameter.kind {
                let start = &declaration.parameter.name;
                let pointer = start.strip_suffix("_start").unwrap_or(start);
                out.push_str(&format!("    {pointer} += {start};\n"));
            }
        }
        let index = parts.index;
        out.push_str(&entry::device_body(self, parts, |axis| Axis {
            thread: format!("({index})get_local_id({axis})"),
            block: format!(
                "({index})(get_global_offset({axis}) / get_local_size({axis}) + get_group_id({axis}))"
            ),
            blocks: None,
        }));
        out.push_str("}\n");
        out
    }

    fn compiler_options(&self, options: &Options) -> Vec<String> {
        let subgroups = self.features.subgroups
            || self.features.subgroup_ballot
            || self.features.subgroup_shuffle;
        let beyond = subgroups || self.features.device_fence;
        let mut said = vec![match (beyond, self.features.version_3) {
            (false, _) => "-cl-std=CL1.2",
            (true, false) => "-cl-std=CL2.0",
            (true, true) => "-cl-std=CL3.0",
        }];
        if options.fast_math {
            said.push("-cl-fast-relaxed-math");
        } else {
            said.push("-cl-fp32-correctly-rounded-divide-sqrt");
        }
        if options.contract {
            said.push("-cl-mad-enable");
        }
        if options.flush_to_zero {
            said.push("-cl-denorms-are-zero");
        }
        said.into_iter().map(str::to_owned).collect()
    }

    fn leave(&self) -> &'static str {
        "goto quipu_next;"
    }

    fn has_starts(&self) -> bool {
        true
    }

    fn depth(&self, _dimensions: usize, _narrow: bool, leaves: bool) -> usize {
        entry::depth_on_device(0, leaves)
    }

    fn shared_parameter(&self, shared: SharedId) -> Option<EntryKind> {
        Some(EntryKind::SharedPointer { shared })
    }
}

impl OpenCl {
    /// An operation of a warp of NVIDIA's, in PTX: as CUDA C's.
    fn ptx_warp(
        &self,
        helpers: &mut Helpers,
        operation: WarpOperation,
        scalar: Scalar,
        operands: &[String],
    ) -> String {
        use WarpOperation as W;
        helpers.add("quipu_lane", |_| {
            "/* The number of a thread in its block, of which warps are 32 each. */\n\
             static inline uint quipu_in_block(void)\n{\n    \
             return (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));\n}\n\n\
             /* How many threads the warp has: the last of a block may have fewer. */\n\
             static inline uint quipu_warp_threads(void)\n{\n    \
             const uint all = (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));\n    \
             const uint rest = all - (quipu_in_block() & ~31u);\n    \
             return rest < 32u ? rest : 32u;\n}\n\n\
             static inline uint quipu_warp_mask(void)\n{\n    \
             return 0xffffffffu >> (32u - quipu_warp_threads());\n}\n\n\
             static inline uint quipu_ballot(bool predicate)\n{\n    \
             const uint said = predicate, mask = quipu_warp_mask();\n    uint votes;\n    \
             asm volatile(\"{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }\"\n        \
             : \"=r\"(votes) : \"r\"(said), \"r\"(mask) : \"memory\");\n    return votes;\n}"
                .to_owned()
        });
        match operation {
            W::Size => "32u".into(),
            W::Lane => "(quipu_in_block() & 31u)".into(),
            W::ActiveMask => "(ulong)quipu_warp_mask()".into(),
            W::All => format!("(quipu_ballot({}) == quipu_warp_mask())", operands[0]),
            W::Any => format!("(quipu_ballot({}) != 0)", operands[0]),
            W::Ballot => format!("(ulong)quipu_ballot({})", operands[0]),
            W::Shuffle | W::ShuffleUp | W::ShuffleDown | W::ShuffleXor => {
                helpers.add("quipu_shuffle", |_| {
                    "/* The word of another thread of the warp. */\n\
                     static inline uint quipu_shuffle(uint word, uint there)\n{\n    \
                     const uint mask = quipu_warp_mask();\n    uint seen;\n    \
                     asm volatile(\"shfl.sync.idx.b32 %0, %1, %2, 0x1f, %3;\"\n        \
                     : \"=r\"(seen) : \"r\"(word), \"r\"(there), \"r\"(mask) : \"memory\");\n    return seen;\n}"
                        .to_owned()
                });
                let what = format!("{operation:?}").to_lowercase();
                let name = format!("quipu_{what}_{}", short(scalar));
                helpers.add(&name, |_| {
                    let t = self.scalar(scalar);
                    let from = match operation {
                        W::Shuffle => "lane & 31u",
                        W::ShuffleUp => "own - lane",
                        W::ShuffleDown => "own + lane",
                        _ => "own ^ lane",
                    };
                    let seen = match (width(scalar), scalar) {
                        (64, _) => {
                            let bits = match scalar {
                                Scalar::F64 => "as_ulong(value)",
                                _ => "(ulong)value",
                            };
                            let seen = "(ulong)quipu_shuffle((uint)bits, there) | (ulong)quipu_shuffle((uint)(bits >> 32), there) << 32";
                            let seen = match scalar {
                                Scalar::F64 => format!("as_double({seen})"),
                                _ => format!("({t})({seen})"),
                            };
                            format!("const ulong bits = {bits};\n    return {seen};")
                        }
                        (_, Scalar::F32) => {
                            "return as_float(quipu_shuffle(as_uint(value), there));".to_owned()
                        }
                        _ => format!("return ({t})quipu_shuffle((uint)value, there);"),
                    };
                    format!(
                        "static inline {t} {name}({t} value, uint lane)\n{{\n    \
                         const uint own = quipu_in_block() & 31u, from = {from};\n    \
                         const uint there = from < quipu_warp_threads() ? from : own;\n    \
                         {seen}\n}}"
                    )
                });
                format!("{name}({})", operands.join(", "))
            }
        }
    }
}
