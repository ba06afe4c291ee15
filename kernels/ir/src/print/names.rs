//! Names: the user's where possible, legal in every dialect, unique.
//!
//! The words of all dialects are avoided in each, so that a kernel reads the same in all of them.

use std::collections::BTreeSet;

/// Words that mean something in one of the dialects, or in a header that a printed source includes.
const RESERVED: &str = "
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
bool true false complex imaginary half size_t ptrdiff_t intptr_t uintptr_t
asm class const_cast constexpr consteval constinit decltype delete dynamic_cast explicit export friend mutable
namespace new noexcept nullptr operator private protected public reinterpret_cast static_assert static_cast template
this thread_local throw try catch typeid typename typeof using virtual wchar_t char8_t char16_t char32_t alignas alignof
and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq concept requires co_await co_return co_yield
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uchar ushort uint ulong
kernel global local constant generic read_only write_only read_write uniform pipe image2d_t sampler_t event_t
vec_step barrier mem_fence printf main abort exit malloc calloc free memcpy memset errno stdin stdout stderr NULL
unix linux assert signal index rindex time clock signgam div ldiv remove rename
clamp degrees mix radians step smoothstep sign cross dot distance length normalize isnan isinf isfinite isnormal
signbit select any all bitselect shuffle shuffle2 prefetch convert
dim3 uint3 int2 int3 int4 float2 float3 float4 double2 char2 threadIdx blockIdx blockDim gridDim warpSize
atomicAdd atomicSub atomicExch atomicMin atomicMax atomicInc atomicDec atomicCAS atomicAnd atomicOr atomicXor
arguments context launch fault quipu
";

/// Mathematical functions, of which C has others for `float` and `long double` with an `f` and an
/// `l` at the end.
const MATHEMATICS: &str = "
abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 exp10 fabs fdim floor
fma fmax fmin fmod frexp hypot ilogb ldexp log log2 log10 log1p logb mad maxmag minmag modf nan nextafter pow pown
powr remainder remquo rint round rootn rsqrt sin sincos sinh sqrt tan tanh trunc sinpi cospi tanpi scalbn lrint lround
nearbyint labs llabs clz ctz popcount rotate add_sat sub_sat mul_hi mad_hi mad24 mul24 hadd rhadd upsample min max
j0 j1 jn y0 y1 yn gamma lgamma tgamma nexttoward scalbln scalb llrint llround drem significand finite isnan isinf
roundeven fmaximum fminimum canonicalize acospi asinpi atanpi atan2pi exp2m1 exp10m1 log2p1 log10p1 logp1
erfinv erfcinv erfcx normcdf normcdfinv cyl_bessel_i0 cyl_bessel_i1 rcbrt rhypot norm3d norm4d rnorm3d rnorm4d
";

/// Names given out so far in some scope, and those of the scopes around it.
#[derive(Clone, Debug)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    pub(super) fn new() -> Self {
        let reserved = RESERVED.split_whitespace().map(str::to_owned);
        let mathematics = MATHEMATICS
            .split_whitespace()
            .flat_map(|name| ["", "f", "l"].map(|ending| format!("{name}{ending}")));
        Self {
            taken: reserved.chain(mathematics).collect(),
        }
    }

    /// A name like the wanted one that nothing has, with each of the endings appended too.
    pub(super) fn unique(&mut self, wanted: &str, endings: &[&str]) -> String {
        let wanted = legal(wanted);
        let mut name = wanted.clone();
        let mut number = 1;
        while self.taken.contains(&name)
            || endings
                .iter()
                .any(|ending| self.taken.contains(&format!("{name}{ending}")))
        {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        for ending in endings {
            self.taken.insert(format!("{name}{ending}"));
        }
        self.taken.insert(name.clone());
        name
    }
}

/// A word of letters that every dialect knows, which is not the implementation's.
pub(super) fn legal(wanted: &str) -> String {
    let wanted = wanted.strip_prefix("r#").unwrap_or(wanted);
    let mut name = String::new();
    for letter in wanted.chars() {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            name.push(letter);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_end_matches('_');
    // `_X` and `__x` are the implementation's, `quipu_` is ours, and vectors' and integers' types
    // are many.
    let first = name.trim_start_matches('_');
    let generated = first
        .strip_prefix('t')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
    if first.is_empty() {
        "unnamed".to_owned()
    } else if first.starts_with(|letter: char| letter.is_ascii_digit()) {
        format!("n{first}")
    } else if generated
        || [
            "quipu",
            "get_",
            "atomic_",
            "atom_",
            "sub_group",
            "work_group",
            "as_",
            "convert_",
            "native_",
            "half_",
            "vload",
            "vstore",
            "cl_",
            "CL",
            "CUDA",
            "FP_",
            "INT",
            "UINT",
            "MAX",
            "M_",
        ]
        .iter()
        .any(|prefix| first.starts_with(prefix))
        || is_vector(first)
        || first.contains("__")
    {
        format!("u_{}", first.replace("__", "_"))
    } else {
        first.to_owned()
    }
}

/// OpenCL C's and CUDA C's vector types: `float4`, `uchar16`.
fn is_vector(name: &str) -> bool {
    let base = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    base.len() < name.len()
        && matches!(
            base,
            "char"
                | "uchar"
                | "short"
                | "ushort"
                | "int"
                | "uint"
                | "long"
                | "ulong"
                | "float"
                | "double"
                | "half"
                | "longlong"
                | "ulonglong"
                | "bool"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_unique_and_the_users_where_possible() {
        let mut names = Names::new();
        for (wanted, given) in [
            ("x", "x"),
            ("x", "x_2"),
            ("r#loop", "loop"),
            ("float", "float_2"),
            ("float4", "u_float4"),
            ("größe", "gr_e"),
            ("Map<f32>::new", "Map_f32_new"),
            ("0", "n0"),
            ("_unused", "unused"),
            ("__builtin", "builtin"),
            ("quipu_in", "u_quipu_in"),
            ("t1", "u_t1"),
            ("_", "unnamed"),
            ("kernel", "kernel_2"),
        ] {
            assert_eq!(names.unique(wanted, &[]), given, "for {wanted}");
        }
    }

    #[test]
    fn endings_are_kept_free() {
        let mut names = Names::new();
        assert_eq!(names.unique("y_length", &[]), "y_length");
        assert_eq!(names.unique("y", &["_length"]), "y_2");
        assert_eq!(names.unique("y_2_length", &[]), "y_2_length_2");
    }
}
