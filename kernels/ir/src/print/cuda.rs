//! CUDA C for NVRTC or nvcc, without any header; compute capability 7.0 and up.

use crate::module::{LaunchBounds, SharedId, SharedLength};
use crate::operation::{AtomicOperation, FenceOrder, MathFunction, Scope, WarpOperation};
use crate::types::Scalar;

use super::Options;
use super::c99::library_name;
use super::dialect::{AtomicCall, Language, Possible};
use super::entry::{self, Axis, EntryParts};
use super::helpers::{Helpers, call_on, short, unsigned, width};
use super::protocol::EntryKind;

/// CUDA C.
pub(super) struct Cuda;

const AXES: [&str; 3] = ["x", "y", "z"];

/// The barrier of all blocks of the grid, which run at once. The first thread of each block meets
/// those of the others. The last of them to come sets the number of waiting blocks to zero, and
/// counts the barrier. The others wait for that.
const GRID_BARRIER: &str = "\
/* A barrier of the grid. Its words are the number of blocks that wait, and the number of barriers passed. */
static __device__ __forceinline__ void quipu_wait_for_grid(const quipu_context *quipu)
{
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        volatile unsigned int *const waiting = quipu->grid_barrier, *const passed = waiting + 1;
        const unsigned int before = *passed;
        __threadfence();
        if (atomicAdd((unsigned int *)waiting, 1u) == gridDim.x * gridDim.y * gridDim.z - 1u) {
            *waiting = 0u;
            __threadfence();
            *passed = before + 1u;
        } else {
            while (*passed == before)
                ;
        }
        __threadfence();
    }
    __syncthreads();
}";

/// A load or store of a word, which is one step; volatile, it is done each time, and not in the
/// first cache.
fn whole_word(language: &Cuda, helpers: &mut Helpers, call: &AtomicCall<'_>) -> String {
    let t = language.scalar(call.scalar);
    let what = format!("{:?}", call.operation).to_lowercase();
    let name = format!("quipu_atomic_{what}_{}", short(call.scalar));
    helpers.add(&name, |_| match call.operation {
        AtomicOperation::Load => format!(
            "static __device__ __forceinline__ {t} {name}(volatile {t} *place)\n{{\n    return *place;\n}}"
        ),
        _ => format!(
            "static __device__ __forceinline__ void {name}(volatile {t} *place, {t} operand)\n{{\n    \
             *place = operand;\n}}"
        ),
    });
    call_on(&name, &call.pointer, call.operands)
}

/// The bounds of a kernel's blocks for the compiler, before its name.
fn launch_bounds(bounds: &LaunchBounds) -> String {
    match (bounds.most_threads(), bounds.min_blocks) {
        (Some(threads), Some(blocks)) => format!("__launch_bounds__({threads}, {blocks}) "),
        (Some(threads), None) => format!("__launch_bounds__({threads}) "),
        (None, _) => String::new(),
    }
}

impl Language for Cuda {
    fn name(&self) -> &'static str {
        "CUDA C"
    }

    fn scalar(&self, scalar: Scalar) -> &'static str {
        match scalar {
            Scalar::Bool => "bool",
            Scalar::I8 => "signed char",
            Scalar::I16 => "short",
            Scalar::I32 => "int",
            Scalar::I64 | Scalar::SignedIndex => "long long",
            Scalar::U8 => "unsigned char",
            // Floats of 16 bits are their bits.
            Scalar::U16 | Scalar::F16 | Scalar::Bf16 => "unsigned short",
            Scalar::U32 => "unsigned int",
            Scalar::U64 | Scalar::Index => "unsigned long long",
            Scalar::F32 => "float",
            Scalar::F64 => "double",
        }
    }

    fn function(&self) -> &'static str {
        "__device__ __forceinline__ "
    }

    fn constant(&self) -> &'static str {
        "static __constant__"
    }

    fn cold(&self) -> &'static str {
        // Not a call: its arguments and the values that it may overwrite would be registers that
        // every thread has, and half as many threads would fit.
        "__device__ __forceinline__ "
    }

    fn aligned(&self, bytes: u64) -> String {
        format!("__align__({bytes})")
    }

    fn aggregate(&self, type_name: &str, fields: &str) -> String {
        format!("{type_name}{{{fields}}}")
    }

    fn float_of_bits(&self, _helpers: &mut Helpers, scalar: Scalar, bits: &str) -> String {
        match scalar {
            Scalar::F32 => format!("__uint_as_float({bits})"),
            _ => format!("__longlong_as_double((long long)({bits}))"),
        }
    }

    fn bits_of_float(&self, _helpers: &mut Helpers, scalar: Scalar, value: &str) -> String {
        match scalar {
            Scalar::F32 => format!("__float_as_uint({value})"),
            _ => format!("((unsigned long long)__double_as_longlong({value}))"),
        }
    }

    fn math(
        &self,
        function: Option<MathFunction>,
        scalar: Scalar,
        _helpers: &mut Helpers,
    ) -> String {
        let ending = if scalar == Scalar::F32 { "f" } else { "" };
        format!("{}{ending}", library_name(function))
    }

    fn count_ones(&self, wide: bool, value: &str) -> String {
        format!("__popc{}({value})", if wide { "ll" } else { "" })
    }

    fn leading_zeros(&self, wide: bool, value: &str) -> String {
        if wide {
            format!("__clzll((long long)({value}))")
        } else {
            format!("__clz((int)({value}))")
        }
    }

    fn claim(&self, record: &str, value: &str) -> String {
        format!("atomicCAS({record}, 0u, {value}) == 0")
    }

    fn publish(&self) -> Option<&'static str> {
        Some("__threadfence_system();")
    }

    fn unroll(&self) -> Option<&'static str> {
        Some("#pragma unroll")
    }

    fn barrier(&self, _site: Option<u32>) -> String {
        "__syncthreads()".into()
    }

    fn barrier_count(&self, _helpers: &mut Helpers, predicate: &str, _site: Option<u32>) -> String {
        format!("__syncthreads_count({predicate})")
    }

    fn grid_barrier(&self, helpers: &mut Helpers, _site: Option<u32>) -> Possible {
        helpers.add("quipu_grid_barrier", |_| GRID_BARRIER.to_owned());
        Ok("quipu_wait_for_grid(quipu)".into())
    }

    fn grid_barriers_need_words(&self) -> bool {
        true
    }

    fn clock(&self, _helpers: &mut Helpers) -> Possible {
        Ok("(unsigned long long)clock64()".into())
    }

    fn fence(&self, helpers: &mut Helpers, scope: Scope, order: FenceOrder) -> Possible {
        let (full, ptx) = match scope {
            Scope::Block => ("__threadfence_block()", "cta"),
            Scope::Device => ("__threadfence()", "gpu"),
            Scope::System => ("__threadfence_system()", "sys"),
        };
        if order == FenceOrder::SequentiallyConsistent {
            return Ok(full.into());
        }
        // PTX has one fence for both orders, on devices since Volta.
        let name = format!("quipu_fence_{ptx}");
        helpers.add(&name, |_| {
            format!(
                "static __device__ __forceinline__ void {name}(void) {{\n#if __CUDA_ARCH__ >= 700\n    \
                 asm volatile(\"fence.acq_rel.{ptx};\" ::: \"memory\");\n#else\n    {full};\n#endif\n}}\n"
            )
        });
        Ok(format!("{name}()"))
    }

    fn atomic(&self, helpers: &mut Helpers, call: &AtomicCall<'_>) -> Possible {
        use AtomicOperation as A;
        let AtomicCall {
            operation,
            scalar,
            scope,
            pointer,
            operands,
            ..
        } = call;
        let scope = match scope {
            Scope::Block => "_block",
            Scope::Device => "",
            Scope::System => "_system",
        };
        let name = match operation {
            A::Add | A::Subtract => "Add",
            A::Minimum => "Min",
            A::Maximum => "Max",
            A::Exchange => "Exch",
            A::And => "And",
            A::Or => "Or",
            A::Xor => "Xor",
            A::CompareExchange => "CAS",
            A::Increment => "Inc",
            A::Decrement => "Dec",
            A::Load | A::Store => return Ok(whole_word(self, helpers, call)),
        };
        let operands: Vec<String> = match operation {
            // There is no difference of 64 bits.
            A::Subtract => {
                let u = self.scalar(unsigned(*scalar));
                vec![format!("-({u})({})", operands[0])]
            }
            _ => operands.to_vec(),
        };
        // The types that CUDA C has an operation for.
        let native = match operation {
            A::Add => *scalar != Scalar::I64,
            A::Minimum | A::Maximum => true,
            A::Exchange => !matches!(scalar, Scalar::I64 | Scalar::F64),
            A::Increment | A::Decrement => true,
            _ => matches!(scalar, Scalar::I32 | Scalar::U32 | Scalar::U64),
        };
        if native {
            return Ok(format!(
                "atomic{name}{scope}({pointer}, {})",
                operands.join(", ")
            ));
        }
        // By the bits.
        let u = self.scalar(unsigned(*scalar));
        let operands: Vec<_> = operands
            .iter()
            .map(|operand| {
                if scalar.is_float() {
                    self.bits_of_float(helpers, *scalar, operand)
                } else {
                    format!("({u})({operand})")
                }
            })
            .collect();
        let old = format!(
            "atomic{name}{scope}(({u} *)({pointer}), {})",
            operands.join(", ")
        );
        Ok(if scalar.is_float() {
            self.float_of_bits(helpers, *scalar, &old)
        } else {
            format!("({})({old})", self.scalar(*scalar))
        })
    }

    fn warp(
        &self,
        helpers: &mut Helpers,
        operation: WarpOperation,
        scalar: Scalar,
        operands: &[String],
    ) -> Possible {
        use WarpOperation as W;
        helpers.add("quipu_lane", |_| {
            "/* The number of a thread in its block, of which warps are 32 each. */\n\
             static __device__ __forceinline__ unsigned int quipu_in_block()\n{\n    \
             return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n}\n\n\
             /* How many threads the warp has: the last of a block may have fewer. */\n\
             static __device__ __forceinline__ unsigned int quipu_warp_threads()\n{\n    \
             const unsigned int rest = blockDim.x * blockDim.y * blockDim.z - (quipu_in_block() & ~31u);\n    \
             return rest < 32u ? rest : 32u;\n}\n\n\
             static __device__ __forceinline__ unsigned int quipu_warp_mask()\n{\n    \
             return 0xffffffffu >> (32u - quipu_warp_threads());\n}"
                .to_owned()
        });
        Ok(match operation {
            W::Size => "32u".into(),
            W::Lane => "(quipu_in_block() & 31u)".into(),
            W::ActiveMask => "(unsigned long long)quipu_warp_mask()".into(),
            W::All => format!("(__all_sync(quipu_warp_mask(), {}) != 0)", operands[0]),
            W::Any => format!("(__any_sync(quipu_warp_mask(), {}) != 0)", operands[0]),
            W::Ballot => format!(
                "(unsigned long long)__ballot_sync(quipu_warp_mask(), {})",
                operands[0]
            ),
            W::Shuffle | W::ShuffleUp | W::ShuffleDown | W::ShuffleXor => {
                let what = format!("{operation:?}").to_lowercase();
                let name = format!("quipu_{what}_{}", short(scalar));
                helpers.add(&name, |_| {
                    let t = self.scalar(scalar);
                    let carried = if width(scalar) < 32 { "int" } else { t };
                    let from = match operation {
                        W::Shuffle => "lane & 31u",
                        W::ShuffleUp => "own - lane",
                        W::ShuffleDown => "own + lane",
                        _ => "own ^ lane",
                    };
                    format!(
                        "static __device__ __forceinline__ {t} {name}({t} value, unsigned int lane)\n{{\n    \
                         const unsigned int own = quipu_in_block() & 31u, from = {from};\n    \
                         const unsigned int there = from < quipu_warp_threads() ? from : own;\n    \
                         return ({t})__shfl_sync(quipu_warp_mask(), ({carried})value, (int)there);\n}}"
                    )
                });
                format!("{name}({})", operands.join(", "))
            }
        })
    }

    fn format(&self, scalar: Scalar) -> (&'static str, &'static str) {
        match scalar {
            Scalar::F32 => ("%.9g", "double"),
            Scalar::F64 => ("%.17g", "double"),
            _ if scalar.is_signed() => ("%lld", "long long"),
            _ => ("%llu", "unsigned long long"),
        }
    }

    fn head(&self, _options: &Options, _parts: &EntryParts) -> String {
        "/* CUDA C, printed by Quipu. */\n\n".into()
    }

    fn context_fields(&self, parts: &EntryParts) -> String {
        let words = parts.grid_words();
        words.map_or_else(String::new, |_| "    unsigned int *grid_barrier;\n".into())
    }

    fn entry(&self, parts: &EntryParts) -> String {
        let parameters: Vec<_> = parts
            .declarations
            .iter()
            .filter_map(|declaration| entry::device_parameter(self, declaration, "__restrict__ "))
            .map(|parameter| format!("    {parameter}"))
            .collect();
        let mut out = format!(
            "extern \"C\" __global__ void {}{}(\n{})\n{{\n",
            launch_bounds(&parts.bounds),
            parts.name,
            parameters.join(",\n")
        );
        let launched =
            |array: &&entry::SharedDeclaration| array.length_kind == SharedLength::Launch;
        if parts.shared.iter().any(|array| launched(&array)) {
            out.push_str("    extern __shared__ __align__(16) unsigned char quipu_dynamic[];\n");
        }
        for array in &parts.shared {
            let (t, name) = (&array.element, &array.name);
            out.push_str(&match array.length_kind {
                SharedLength::Fixed(length) => format!("    __shared__ {t} {name}[{length}];\n"),
                SharedLength::Launch => {
                    format!("    {t} *const {name} = ({t} *)(quipu_dynamic + {name}_offset);\n")
                }
            });
        }
        if parts.divides {
            out.push_str(&nonzero_extents(parts.dimensions));
        }
        let mut device = parts.clone();
        // The hardware counts.
        device.counts = false;
        let index = parts.index;
        out.push_str(&entry::device_body(self, &device, |axis| Axis {
            thread: format!("({index})threadIdx.{}", AXES[axis]),
            block: format!("({index})blockIdx.{}", AXES[axis]),
            // Along its first axis the hardware has as many blocks as indices of 32 bits count.
            blocks: (axis > 0 || index != self.scalar(Scalar::U32))
                .then(|| format!("({index})gridDim.{}", AXES[axis])),
        }));
        out.push_str("}\n");
        out
    }

    fn compiler_options(&self, options: &Options) -> Vec<String> {
        let mut said = Vec::new();
        if options.fast_math {
            said.push("--use_fast_math");
        } else {
            said.extend([
                "--prec-div=true",
                "--prec-sqrt=true",
                if options.contract {
                    "--fmad=true"
                } else {
                    "--fmad=false"
                },
                if options.flush_to_zero {
                    "--ftz=true"
                } else {
                    "--ftz=false"
                },
            ]);
        }
        said.into_iter().map(str::to_owned).collect()
    }

    fn leave(&self) -> &'static str {
        "goto quipu_next;"
    }

    fn has_starts(&self) -> bool {
        false
    }

    fn depth(&self, dimensions: usize, narrow: bool, leaves: bool) -> usize {
        entry::depth_on_device(entry::axes(dimensions) - usize::from(narrow), leaves)
    }

    fn shared_parameter(&self, shared: SharedId) -> Option<EntryKind> {
        Some(EntryKind::SharedOffset { shared })
    }
}

/// Assumptions that a compiler cannot know: where a thread is, there are blocks and threads. So it
/// leaves out the checks where something is divided among them.
fn nonzero_extents(dimensions: usize) -> String {
    (0..dimensions)
        .map(|d| {
            format!(
                "    __builtin_assume(launch.grid_blocks[{d}] != 0 && launch.block_threads[{d}] != 0);\n"
            )
        })
        .collect()
}
