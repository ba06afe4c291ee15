//! C99 with GNU builtins, which runs a whole grid in one call.
//!
//! Blocks run one after the other. Without barriers, so do a block's threads, each from its begin
//! to its end. With barriers, each thread of a block is a coroutine (`ucontext`): the block's
//! threads run in turn, each up to the next barrier. When not all of them are at the same one then,
//! that is recorded as a fault and the launch ends; so nothing ever hangs. A warp is one thread.
//!
//! The blocks of a kernel with barriers of the grid are all there at once: they run in turn, each
//! up to the next such barrier.

use crate::module::{SharedId, SharedLength};
use crate::operation::{AtomicOperation, FenceOrder, MathFunction, Scope, WarpOperation};
use crate::types::{Scalar, Space};

use super::Options;
use super::dialect::{AtomicCall, Language, Possible};
use super::entry::EntryParts;
use super::helpers::{Helpers, call_on, short, unsigned};
use super::protocol::EntryKind;

/// C99.
pub(super) struct C99;

/// Threads of a block as coroutines.
const CREW: &str = include_str!("crew.h");

/// The C library's name of a function, without the ending for `float`.
pub(super) fn library_name(function: Option<MathFunction>) -> &'static str {
    use MathFunction as M;
    match function {
        None => "fmod",
        Some(M::Abs) => "fabs",
        Some(M::Ceil) => "ceil",
        Some(M::Floor) => "floor",
        Some(M::Trunc) => "trunc",
        Some(M::Round) => "round",
        Some(M::RoundTiesEven) => "rint",
        Some(M::Copysign) => "copysign",
        Some(M::Sqrt) => "sqrt",
        Some(M::Fma) => "fma",
        Some(M::Remainder) => "remainder",
        Some(M::Acos) => "acos",
        Some(M::Acosh) => "acosh",
        Some(M::Asin) => "asin",
        Some(M::Asinh) => "asinh",
        Some(M::Atan) => "atan",
        Some(M::Atan2) => "atan2",
        Some(M::Atanh) => "atanh",
        Some(M::Cbrt) => "cbrt",
        Some(M::Cos) => "cos",
        Some(M::Cosh) => "cosh",
        Some(M::Erf) => "erf",
        Some(M::Exp) => "exp",
        Some(M::Exp2) => "exp2",
        Some(M::ExpM1) => "expm1",
        Some(M::Hypot) => "hypot",
        Some(M::Ln) => "log",
        Some(M::Ln1p) => "log1p",
        Some(M::Log2) => "log2",
        Some(M::Log10) => "log10",
        Some(M::Powf) => "pow",
        Some(M::Rsqrt) => "rsqrt",
        Some(M::Sin) => "sin",
        Some(M::Sinh) => "sinh",
        Some(M::Tan) => "tan",
        Some(M::Tanh) => "tanh",
        // Predicates are printed the same way in all dialects.
        Some(M::IsNan | M::IsInfinite | M::IsFinite) => "isnan",
    }
}

impl Language for C99 {
    fn name(&self) -> &'static str {
        "C99"
    }

    fn scalar(&self, scalar: Scalar) -> &'static str {
        match scalar {
            Scalar::Bool => "bool",
            Scalar::I8 => "int8_t",
            Scalar::I16 => "int16_t",
            Scalar::I32 => "int32_t",
            Scalar::I64 | Scalar::SignedIndex => "int64_t",
            Scalar::U8 => "uint8_t",
            // Floats of 16 bits are their bits.
            Scalar::U16 | Scalar::F16 | Scalar::Bf16 => "uint16_t",
            Scalar::U32 => "uint32_t",
            Scalar::U64 | Scalar::Index => "uint64_t",
            Scalar::F32 => "float",
            Scalar::F64 => "double",
        }
    }

    fn function(&self) -> &'static str {
        "inline "
    }

    fn constant(&self) -> &'static str {
        "static const"
    }

    fn cold(&self) -> &'static str {
        ""
    }

    fn aggregate(&self, type_name: &str, fields: &str) -> String {
        format!("({type_name}){{{fields}}}")
    }

    fn float_of_bits(&self, helpers: &mut Helpers, scalar: Scalar, bits: &str) -> String {
        let name = format!("quipu_{}_of_bits", short(scalar));
        helpers.add(&name, |_| {
            let (t, u) = (self.scalar(scalar), self.scalar(unsigned(scalar)));
            format!(
                "static inline {t} {name}({u} bits)\n{{\n    {t} value;\n    \
                 memcpy(&value, &bits, sizeof value);\n    return value;\n}}"
            )
        });
        format!("{name}({bits})")
    }

    fn bits_of_float(&self, helpers: &mut Helpers, scalar: Scalar, value: &str) -> String {
        let name = format!("quipu_bits_of_{}", short(scalar));
        helpers.add(&name, |_| {
            let (t, u) = (self.scalar(scalar), self.scalar(unsigned(scalar)));
            format!(
                "static inline {u} {name}({t} value)\n{{\n    {u} bits;\n    \
                 memcpy(&bits, &value, sizeof bits);\n    return bits;\n}}"
            )
        });
        format!("{name}({value})")
    }

    fn math(
        &self,
        function: Option<MathFunction>,
        scalar: Scalar,
        helpers: &mut Helpers,
    ) -> String {
        let ending = if scalar == Scalar::F32 { "f" } else { "" };
        if function == Some(MathFunction::Rsqrt) {
            let name = format!("quipu_rsqrt_{}", short(scalar));
            helpers.add(&name, |_| {
                let t = self.scalar(scalar);
                format!("static inline {t} {name}({t} x)\n{{\n    return 1 / sqrt{ending}(x);\n}}")
            });
            return name;
        }
        format!("{}{ending}", library_name(function))
    }

    fn count_ones(&self, wide: bool, value: &str) -> String {
        format!(
            "__builtin_popcount{}({value})",
            if wide { "ll" } else { "" }
        )
    }

    fn leading_zeros(&self, wide: bool, value: &str) -> String {
        let (ending, width) = if wide { ("ll", 64) } else { ("", 32) };
        format!("({value} == 0 ? {width} : __builtin_clz{ending}({value}))")
    }

    fn claim(&self, record: &str, value: &str) -> String {
        format!("__sync_bool_compare_and_swap({record}, 0, {value})")
    }

    fn finds_divergence(&self) -> bool {
        true
    }

    fn barrier(&self, site: Option<u32>) -> String {
        wait(site, "false")
    }

    fn barrier_count(&self, _helpers: &mut Helpers, predicate: &str, site: Option<u32>) -> String {
        wait(site, predicate)
    }

    fn grid_barrier(&self, _helpers: &mut Helpers, site: Option<u32>) -> Possible {
        let site = site.unwrap_or_default();
        Ok(format!(
            "quipu_wait(quipu->crew, {site} | quipu_grid, false)"
        ))
    }

    fn clock(&self, helpers: &mut Helpers) -> Possible {
        helpers.add("quipu_clock", |_| {
            "#include <time.h>\n\n/* Nanoseconds. */\nstatic inline uint64_t quipu_clock(void)\n{\n    \
             struct timespec now;\n    clock_gettime(CLOCK_MONOTONIC, &now);\n    \
             return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;\n}"
                .into()
        });
        Ok("quipu_clock()".into())
    }

    fn fence(&self, _helpers: &mut Helpers, _scope: Scope, order: FenceOrder) -> Possible {
        Ok(match order {
            FenceOrder::Acquire => "__atomic_thread_fence(__ATOMIC_ACQUIRE)",
            FenceOrder::Release => "__atomic_thread_fence(__ATOMIC_RELEASE)",
            FenceOrder::SequentiallyConsistent => "__atomic_thread_fence(__ATOMIC_SEQ_CST)",
        }
        .into())
    }

    fn atomic(&self, helpers: &mut Helpers, call: &AtomicCall<'_>) -> Possible {
        use AtomicOperation as A;
        let AtomicCall {
            operation,
            scalar,
            pointer,
            operands,
            ..
        } = call;
        let simple = match operation {
            A::Add if scalar.is_integer() => Some("add"),
            A::Subtract => Some("sub"),
            _ => None,
        };
        if let Some(simple) = simple {
            let operand = &operands[0];
            return Ok(format!(
                "__atomic_fetch_{simple}({pointer}, {operand}, __ATOMIC_SEQ_CST)"
            ));
        }
        let what = format!("{operation:?}").to_lowercase();
        let name = format!("quipu_atomic_{what}_{}", short(*scalar));
        helpers.add(&name, |_| {
            let t = self.scalar(*scalar);
            if *operation == A::Load {
                return format!(
                    "static inline {t} {name}({t} *place)\n{{\n    {t} held;\n    \
                     __atomic_load(place, &held, __ATOMIC_SEQ_CST);\n    return held;\n}}"
                );
            }
            if *operation == A::Store {
                return format!(
                    "static inline void {name}({t} *place, {t} operand)\n{{\n    \
                     __atomic_store(place, &operand, __ATOMIC_SEQ_CST);\n}}"
                );
            }
            if let A::And | A::Or | A::Xor = operation {
                let simple = what.as_str();
                return format!(
                    "/* Not inlined: GCC 12 loses the operation where an operand is zero on another way here. */\n\
                     static __attribute__((noinline)) {t} {name}({t} *place, {t} operand)\n{{\n    \
                     return __atomic_fetch_{simple}(place, operand, __ATOMIC_SEQ_CST);\n}}"
                );
            }
            if *operation == A::CompareExchange {
                return format!(
                    "static inline {t} {name}({t} *place, {t} expected, {t} replacement)\n{{\n    \
                     __atomic_compare_exchange(place, &expected, &replacement, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);\n    \
                     return expected;\n}}"
                );
            }
            let replacement = replacement(*operation);
            format!(
                "static inline {t} {name}({t} *place, {t} operand)\n{{\n    {t} old, replacement;\n    \
                 __atomic_load(place, &old, __ATOMIC_SEQ_CST);\n    do {{\n        replacement = {replacement};\n    \
                 }} while (!__atomic_compare_exchange(place, &old, &replacement, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));\n    \
                 return old;\n}}"
            )
        });
        Ok(call_on(&name, pointer, operands))
    }

    fn warp(
        &self,
        _helpers: &mut Helpers,
        operation: WarpOperation,
        _scalar: Scalar,
        operands: &[String],
    ) -> Possible {
        use WarpOperation as W;
        Ok(match operation {
            W::Size => "1u".into(),
            W::Lane => "0u".into(),
            W::ActiveMask => "1ull".into(),
            W::Ballot => format!("({} ? 1ull : 0ull)", operands[0]),
            W::All | W::Any | W::Shuffle | W::ShuffleUp | W::ShuffleDown | W::ShuffleXor => {
                format!("({})", operands[0])
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

    fn head(&self, options: &Options, parts: &EntryParts) -> String {
        let mut head = String::from(
            "/* C99, printed by Quipu. */\n\n#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n\
             #include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n",
        );
        if parts.barriers {
            head.push_str("#include <ucontext.h>\n");
        }
        if !options.contract && !options.fast_math {
            // Compilers that do not know it are told with an option.
            head.push_str("\n#ifndef __GNUC__\n#pragma STDC FP_CONTRACT OFF\n#endif\n");
        }
        head.push('\n');
        if parts.barriers {
            head.push_str(CREW);
            head.push('\n');
        }
        head
    }

    fn context_fields(&self, parts: &EntryParts) -> String {
        let crew = if parts.barriers {
            "    quipu_crew *crew;\n"
        } else {
            ""
        };
        format!("    void *const *arguments;\n{crew}")
    }

    fn entry(&self, parts: &EntryParts) -> String {
        let start = if parts.barriers {
            "static void quipu_run_context(const void *context)\n{\n    quipu_run(context);\n}\n\n"
        } else {
            ""
        };
        [&thread(self, parts), start, &grid(parts)].concat()
    }

    fn compiler_options(&self, options: &Options) -> Vec<String> {
        let mut said = vec!["-std=gnu99"];
        if options.fast_math {
            said.push("-ffast-math");
        } else {
            // Without this, 32-bit x86 computes in 80 bits.
            said.push("-fexcess-precision=standard");
            // Without this, GCC takes `0.0 - x` for `-x` where it knows that `x` is not -0.0, as of
            // a converted integer; it may be 0.0.
            said.push("-frounding-math");
        }
        said.push(if options.contract || options.fast_math {
            "-ffp-contract=fast"
        } else {
            "-ffp-contract=off"
        });
        said.push("-lm");
        said.into_iter().map(str::to_owned).collect()
    }

    fn leave(&self) -> &'static str {
        "return;"
    }

    fn has_starts(&self) -> bool {
        false
    }

    fn depth(&self, _dimensions: usize, _narrow: bool, _leaves: bool) -> usize {
        1
    }

    fn shared_parameter(&self, _shared: SharedId) -> Option<EntryKind> {
        None
    }
}

/// The expression that replaces `old` in an atomic operation that is a loop.
pub(super) fn replacement(operation: AtomicOperation) -> &'static str {
    use AtomicOperation as A;
    match operation {
        A::Add => "old + operand",
        A::Subtract => "old - operand",
        A::Minimum => "operand < old ? operand : old",
        A::Maximum => "operand > old ? operand : old",
        A::Exchange | A::CompareExchange | A::Store => "operand",
        A::Load => "old",
        A::And => "old & operand",
        A::Or => "old | operand",
        A::Xor => "old ^ operand",
        A::Increment => "old >= operand ? 0 : old + 1",
        A::Decrement => "old == 0 || old > operand ? operand : old - 1",
    }
}

/// A thread's wait at a barrier, where a predicate holds or not.
fn wait(site: Option<u32>, predicate: &str) -> String {
    let site = site.unwrap_or_default();
    format!("quipu_wait(quipu->crew, {site}, {predicate})")
}

/// The function of one thread, with the kernel's parameters by their names.
fn thread(language: &C99, parts: &EntryParts) -> String {
    let mut out = String::from(
        "/* What a thread does. */\nstatic void quipu_run(const quipu_context *quipu)\n{\n",
    );
    for (number, declaration) in parts.declarations.iter().enumerate() {
        let name = &declaration.parameter.name;
        let t = &declaration.type_name;
        let line = match declaration.parameter.kind {
            EntryKind::Launch | EntryKind::Fault => continue,
            EntryKind::Pointer { .. } => {
                let pointer = language.pointer(t, Space::Global, declaration.mutable);
                // Threads of other coroutines write to mutable memory: no `restrict` there.
                let restrict = if declaration.mutable { "" } else { "restrict " };
                format!(
                    "{pointer}{restrict}const {name} = *({pointer}const *)quipu->arguments[{number}];"
                )
            }
            _ => format!("const {t} {name} = *(const {t} *)quipu->arguments[{number}];"),
        };
        out.push_str(&format!("    {line}\n"));
    }
    for array in &parts.shared {
        let (t, name) = (&array.element, &array.name);
        out.push_str(&format!("    {t} *const {name} = quipu->{name};\n"));
    }
    out.push_str(&parts.body);
    out.push_str("}\n\n");
    out
}

/// The loops over blocks and threads.
fn grid(parts: &EntryParts) -> String {
    let mut out = String::new();
    let mut line = |depth: usize, text: &str| {
        if !text.is_empty() {
            out.push_str(&"    ".repeat(depth));
            out.push_str(text);
        }
        out.push('\n');
    };
    let number = |kind: fn(&EntryKind) -> bool| {
        let mut declarations = parts.declarations.iter();
        declarations.position(|declaration| kind(&declaration.parameter.kind))
    };
    let launch = number(|kind| matches!(kind, EntryKind::Launch)).unwrap_or_default();
    let fault = number(|kind| matches!(kind, EntryKind::Fault));
    let dimensions = parts.dimensions;
    let index = parts.index;
    line(
        0,
        &format!("int32_t {}(void *const *arguments)", parts.name),
    );
    line(0, "{");
    line(1, "quipu_context context = {0};");
    line(
        1,
        &format!("context.launch = *(const quipu_launch *)arguments[{launch}];"),
    );
    if let Some(fault) = fault {
        line(
            1,
            &format!("context.fault = *(uint32_t *const *)arguments[{fault}];"),
        );
    }
    line(1, "context.arguments = arguments;");
    line(1, "int32_t status = 1;");
    let product = |of: &str| {
        let factors = (0..dimensions).map(|d| format!("context.launch.{of}[{d}]"));
        factors.collect::<Vec<_>>().join(" * ")
    };
    if parts.barriers {
        let threads = product("block_threads");
        line(1, &format!("const size_t threads = (size_t){threads};"));
        let blocks = if parts.grid_barriers {
            format!("(size_t){}", product("grid_blocks"))
        } else {
            "1".into()
        };
        line(1, &format!("const size_t blocks = {blocks};"));
    }
    for array in &parts.shared {
        let (t, name, length) = (&array.element, &array.name, &array.length);
        if array.length_kind == SharedLength::Launch {
            let at = parts
                .declarations
                .iter()
                .position(|d| d.parameter.name == *length)
                .unwrap_or_default();
            line(
                1,
                &format!("const {index} {length} = *(const {index} *)arguments[{at}];"),
            );
            line(1, &format!("context.{length} = {length};"));
        }
        // All blocks are there at once if they wait for each other.
        let blocks = if parts.grid_barriers { " * blocks" } else { "" };
        line(
            1,
            &format!("context.{name} = calloc((size_t){length}{blocks} + 1, sizeof({t}));"),
        );
    }
    if parts.barriers {
        line(
            1,
            "quipu_context *contexts = malloc((blocks * threads + 1) * sizeof *contexts);",
        );
        line(1, "quipu_crew *crew = quipu_hire(blocks, threads);");
        line(1, "context.crew = crew;");
    }
    let mut allocated: Vec<_> = parts
        .shared
        .iter()
        .map(|array| format!("!context.{}", array.name))
        .collect();
    if parts.barriers {
        allocated.extend(["!contexts".into(), "!crew".into()]);
    }
    if !allocated.is_empty() {
        line(1, &format!("if ({})", allocated.join(" || ")));
        line(2, "goto quipu_end;");
    }
    let mut depth = 1;
    if parts.grid_barriers {
        line(depth, "size_t at = 0;");
    }
    for d in 0..dimensions {
        line(
            depth,
            &format!(
                "for (context.block[{d}] = 0; context.block[{d}] < context.launch.grid_blocks[{d}]; context.block[{d}]++) {{"
            ),
        );
        depth += 1;
    }
    let zeroed = parts.shared.iter().filter(|array| array.zero.is_some());
    for array in zeroed.filter(|_| !parts.grid_barriers) {
        line(
            depth,
            &format!(
                "memset(context.{0}, 0, (size_t){1} * sizeof(*context.{0}));",
                array.name, array.length
            ),
        );
    }
    if parts.barriers && !parts.grid_barriers {
        line(depth, "size_t at = 0;");
    }
    for d in 0..dimensions {
        line(
            depth + d,
            &format!(
                "for (context.thread[{d}] = 0; context.thread[{d}] < context.launch.block_threads[{d}]; context.thread[{d}]++)"
            ),
        );
    }
    let work = |depth: usize, line: &mut dyn FnMut(usize, &str)| {
        line(
            depth,
            "if (!quipu_work(crew, contexts, sizeof *contexts)) {",
        );
        line(
            depth + 1,
            "quipu_fault(&contexts[crew->current], 0, 0, (crew->waits[crew->current] & ~quipu_grid) - 1);",
        );
        line(depth + 1, "status = 0;");
        line(depth + 1, "goto quipu_end;");
        line(depth, "}");
    };
    if parts.grid_barriers {
        line(depth + dimensions, "{");
        line(depth + dimensions + 1, "contexts[at] = context;");
        for array in &parts.shared {
            let (name, length) = (&array.name, &array.length);
            line(
                depth + dimensions + 1,
                &format!("contexts[at].{name} += at / threads * {length};"),
            );
        }
        line(depth + dimensions + 1, "at++;");
        line(depth + dimensions, "}");
    } else if parts.barriers {
        line(depth + dimensions, "contexts[at++] = context;");
        work(depth, &mut line);
    } else {
        line(depth + dimensions, "quipu_run(&context);");
    }
    while depth > 1 {
        depth -= 1;
        line(depth, "}");
    }
    if parts.grid_barriers {
        work(depth, &mut line);
    }
    line(1, "status = 0;");
    if !allocated.is_empty() {
        line(0, "quipu_end:");
    }
    for array in &parts.shared {
        line(1, &format!("free(context.{});", array.name));
    }
    if parts.barriers {
        line(1, "free(contexts);");
        line(1, "quipu_dismiss(crew);");
    }
    line(1, "return status;");
    line(0, "}");
    out
}
