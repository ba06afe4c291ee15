// Functions of `half`, after those of `builtins.cl`. A function of `half` is the one of `float`, rounded once. Only a product and
// a sum in one step, neighbours, and second results that `float` would round differently have code of their own.

#ifdef PART_half
// For each number of elements, the scalar first.
#define EACH_SIZE(macro, ...) \
    macro(, __VA_ARGS__) macro(2, __VA_ARGS__) macro(3, __VA_ARGS__) macro(4, __VA_ARGS__) macro(8, __VA_ARGS__) macro(16, __VA_ARGS__)
#define EACH_VECTOR(macro, ...) \
    macro(2, __VA_ARGS__) macro(3, __VA_ARGS__) macro(4, __VA_ARGS__) macro(8, __VA_ARGS__) macro(16, __VA_ARGS__)

OVER float __q_wide(half a) { return (float)a; }
OVER half __q_narrow(float a) { return (half)a; }
#define WIDEN(n, of) \
    OVER float##n __q_wide(half##n a) { return __builtin_convertvector(a, float##n); } \
    OVER half##n __q_narrow(float##n a) { return __builtin_convertvector(a, half##n); }
EACH_VECTOR(WIDEN, )

// A `double` is made a `float` whose last bit says that something is lost, so that it is rounded once.
OVER half __q_half_of(double a) {
    float near = (float)a;
    uint bits = __builtin_astype(near, uint);
    if (a == a && (double)near != a && !(bits & 1))
        bits = __builtin_fabs((double)near) < __builtin_fabs(a) ? bits + 1 : bits - 1;
    return (half)__builtin_astype(bits, float);
}

#define BY_FLOAT1(n, name) OVER float##n name(float##n); OVER half##n name(half##n a) { return __q_narrow(name(__q_wide(a))); }
#define BY_FLOAT2(n, name) \
    OVER float##n name(float##n, float##n); \
    OVER half##n name(half##n a, half##n b) { return __q_narrow(name(__q_wide(a), __q_wide(b))); }
#define BY_FLOAT3(n, name) \
    OVER float##n name(float##n, float##n, float##n); \
    OVER half##n name(half##n a, half##n b, half##n c) { return __q_narrow(name(__q_wide(a), __q_wide(b), __q_wide(c))); }
#define ONE_(name) EACH_SIZE(BY_FLOAT1, name)
#define TWO_(name) EACH_SIZE(BY_FLOAT2, name)
ONE_(acos) ONE_(acosh) ONE_(acospi) ONE_(asin) ONE_(asinh) ONE_(asinpi) ONE_(atan) ONE_(atanh) ONE_(atanpi) ONE_(cbrt) ONE_(ceil)
ONE_(cos) ONE_(cosh) ONE_(cospi) ONE_(erf) ONE_(erfc) ONE_(exp) ONE_(exp2) ONE_(exp10) ONE_(expm1) ONE_(fabs) ONE_(floor)
ONE_(lgamma) ONE_(log) ONE_(log2) ONE_(log10) ONE_(log1p) ONE_(logb) ONE_(rint) ONE_(round) ONE_(rsqrt) ONE_(sin) ONE_(sinh)
ONE_(sinpi) ONE_(sqrt) ONE_(tan) ONE_(tanh) ONE_(tanpi) ONE_(tgamma) ONE_(trunc) ONE_(degrees) ONE_(radians) ONE_(sign)
TWO_(atan2) TWO_(atan2pi) TWO_(copysign) TWO_(fdim) TWO_(fmax) TWO_(fmin) TWO_(fmod) TWO_(hypot) TWO_(maxmag) TWO_(minmag)
TWO_(pow) TWO_(powr) TWO_(remainder) TWO_(max) TWO_(min) TWO_(step)
EACH_SIZE(BY_FLOAT3, clamp) EACH_SIZE(BY_FLOAT3, mix) EACH_SIZE(BY_FLOAT3, smoothstep)

// A product of two is a number of `float`. The sum's last bit says whether something is lost.
OVER half __q_product_and_sum(half a, half b, half c) {
#pragma OPENCL FP_CONTRACT OFF
    float p = (float)a * (float)b, d = (float)c, s = p + d, of_d = s - p, lost = (p - (s - of_d)) + (d - of_d);
    uint bits = __builtin_astype(s, uint);
    if (lost == lost && lost != 0 && !(bits & 1)) bits = (lost > 0) == (s > 0) ? bits + 1 : bits - 1;
    return (half)__builtin_astype(bits, float);
}
OVER half fma(half a, half b, half c) { return __q_product_and_sum(a, b, c); }
MAP3(fma, half, half, half, half)
OVER half mad(half a, half b, half c) { return (half)((float)a * (float)b + (float)c); }
MAP3(mad, half, half, half, half)

#define SPREAD_(n, of) \
    OVER half##n fmax(half##n a, half b) { return fmax(a, (half##n)(b)); } \
    OVER half##n fmin(half##n a, half b) { return fmin(a, (half##n)(b)); } \
    OVER half##n max(half##n a, half b) { return max(a, (half##n)(b)); } \
    OVER half##n min(half##n a, half b) { return min(a, (half##n)(b)); } \
    OVER half##n clamp(half##n a, half b, half c) { return clamp(a, (half##n)(b), (half##n)(c)); } \
    OVER half##n mix(half##n a, half##n b, half c) { return mix(a, b, (half##n)(c)); } \
    OVER half##n step(half a, half##n b) { return step((half##n)(a), b); } \
    OVER half##n smoothstep(half a, half b, half##n c) { return smoothstep((half##n)(a), (half##n)(b), c); }
EACH_VECTOR(SPREAD_, )

#define WITH_WHOLE(n, name) \
    OVER float##n name(float##n, int##n); \
    OVER half##n name(half##n a, int##n b) { return __q_narrow(name(__q_wide(a), b)); }
EACH_SIZE(WITH_WHOLE, ldexp) EACH_SIZE(WITH_WHOLE, pown) EACH_SIZE(WITH_WHOLE, rootn)
#define ALL_BY_ONE(n, of) OVER half##n ldexp(half##n a, int b) { return ldexp(a, (int##n)(b)); }
EACH_VECTOR(ALL_BY_ONE, )
#define TO_WHOLE(n, name) OVER int##n name(float##n); OVER int##n name(half##n a) { return name(__q_wide(a)); }
EACH_SIZE(TO_WHOLE, ilogb)
OVER half nan(ushort a) { return __builtin_astype((ushort)(0x7e00 | a), half); }
MAP1(nan, half, ushort)
OVER half nextafter(half a, half b) {
    if (a != a || b != b) return a + b;
    if (a == b) return b;
    short i = __builtin_astype(a, short);
    if (a == 0) i = (short)((b < 0 ? 0x8000 : 0) | 1);
    else i = (a < b) == (a > 0) ? i + 1 : i - 1;
    return __builtin_astype(i, half);
}
MAP2(nextafter, half, half, half)

// Functions with a second result, by an address in any space.
#define IN_SPACES(macro, n, name) macro(n, name, __private) macro(n, name, __global) macro(n, name, __local) macro(n, name, ANY_SPACE)
#define SECOND_HALF(n, name, S) \
    OVER half##n name(half##n a, S half##n *to) { \
        float##n second, first = name(__q_wide(a), &second); *to = __q_narrow(second); return __q_narrow(first); }
#define SECOND_HALVES(n, name) OVER float##n name(float##n, __private float##n *); IN_SPACES(SECOND_HALF, n, name)
EACH_SIZE(SECOND_HALVES, modf) EACH_SIZE(SECOND_HALVES, sincos)
// The nearest number to what is left of a small negative one may be 1, which is none that is left.
#define FRACTION(n, name, S) \
    OVER half##n fract(half##n a, S half##n *to) { \
        float##n second, first = fract(__q_wide(a), &second); *to = __q_narrow(second); \
        half##n most = (half##n)(0x1.ffcp-1f), rounded = __q_narrow(first); return rounded == (half##n)(1.0f) ? most : rounded; }
#define FRACTIONS(n, of) OVER float##n fract(float##n, __private float##n *); IN_SPACES(FRACTION, n, fract)
EACH_SIZE(FRACTIONS, )
#define SECOND_WHOLE(n, name, S) \
    OVER half##n name(half##n a, S int##n *to) { int##n second; half##n first = __q_narrow(name(__q_wide(a), &second)); *to = second; return first; }
#define SECOND_WHOLES(n, name) OVER float##n name(float##n, __private int##n *); IN_SPACES(SECOND_WHOLE, n, name)
EACH_SIZE(SECOND_WHOLES, frexp) EACH_SIZE(SECOND_WHOLES, lgamma_r)
#define REST(n, name, S) \
    OVER half##n remquo(half##n a, half##n b, S int##n *to) { \
        int##n second; half##n first = __q_narrow(remquo(__q_wide(a), __q_wide(b), &second)); *to = second; return first; }
#define RESTS(n, of) OVER float##n remquo(float##n, float##n, __private int##n *); IN_SPACES(REST, n, remquo)
EACH_SIZE(RESTS, )

// Geometric functions. Squares are within what `float` has.
#define GEOMETRY(n, of) \
    OVER float dot(float##n, float##n); OVER float length(float##n); OVER float##n normalize(float##n); \
    OVER half dot(half##n a, half##n b) { return (half)dot(__q_wide(a), __q_wide(b)); } \
    OVER half length(half##n a) { return (half)length(__q_wide(a)); } \
    OVER half distance(half##n a, half##n b) { return (half)length(__q_wide(a) - __q_wide(b)); } \
    OVER half##n normalize(half##n a) { return __q_narrow(normalize(__q_wide(a))); }
GEOMETRY(, ) GEOMETRY(2, ) GEOMETRY(3, ) GEOMETRY(4, )
BY_FLOAT2(3, cross) BY_FLOAT2(4, cross)

// Relational functions.
#define COMPARE2(name, body) \
    OVER int name(half a, half b) { return body; } \
    OVER short2 name(half2 a, half2 b) { return body; } OVER short3 name(half3 a, half3 b) { return body; } \
    OVER short4 name(half4 a, half4 b) { return body; } OVER short8 name(half8 a, half8 b) { return body; } \
    OVER short16 name(half16 a, half16 b) { return body; }
COMPARE2(isequal, a == b) COMPARE2(isnotequal, a != b) COMPARE2(isgreater, a > b) COMPARE2(isgreaterequal, a >= b)
COMPARE2(isless, a < b) COMPARE2(islessequal, a <= b) COMPARE2(islessgreater, (a < b) || (a > b))
COMPARE2(isordered, (a == a) && (b == b)) COMPARE2(isunordered, (a != a) || (b != b))
#define KIND(name, body) \
    OVER int name(half a) { ushort bits = __builtin_astype(a, ushort), size = bits & 0x7fff; return body; } \
    OVER short2 name(half2 a) { return (short2)(-name(a.x), -name(a.y)); } \
    OVER short3 name(half3 a) { return (short3)(-name(a.x), -name(a.y), -name(a.z)); } \
    OVER short4 name(half4 a) { return (short4)(name(a.lo), name(a.hi)); } \
    OVER short8 name(half8 a) { return (short8)(name(a.lo), name(a.hi)); } \
    OVER short16 name(half16 a) { return (short16)(name(a.lo), name(a.hi)); }
KIND(isnan, size > 0x7c00) KIND(isinf, size == 0x7c00) KIND(isfinite, size < 0x7c00)
KIND(isnormal, size >= 0x400 && size < 0x7c00) KIND(signbit, bits >> 15)
OVER half select(half a, half b, short c) { return c ? b : a; }
OVER half select(half a, half b, ushort c) { return c ? b : a; }
#define CHOICE(n, of) \
    OVER half##n select(half##n a, half##n b, short##n c) { return c < (short##n)0 ? b : a; } \
    OVER half##n select(half##n a, half##n b, ushort##n c) { return __builtin_astype(c, short##n) < (short##n)0 ? b : a; }
EACH_VECTOR(CHOICE, )
#define MERGE(n, of) \
    OVER half##n bitselect(half##n a, half##n b, half##n c) { \
        ushort##n m = __builtin_astype(c, ushort##n); \
        return __builtin_astype((ushort##n)((__builtin_astype(a, ushort##n) & ~m) | (__builtin_astype(b, ushort##n) & m)), half##n); }
EACH_SIZE(MERGE, )

// Vectors in memory.
LOADS(half, __global) LOADS(half, __local) LOADS(half, __private) LOADS(half, __constant) LOADS(half, ANY_SPACE)
STORES(half, __global) STORES(half, __local) STORES(half, __private) STORES(half, ANY_SPACE)

// Conversions. Through `float` where that has all numbers, and else in the way that is asked for.
#define CONVERT_BY(R, T, suffix, n, by) OVER R##n convert_##R##n##suffix(T##n a) { return by; }
#define FROM_HALF(n, R) FROM_HALF_BY(R, n, ) FROM_HALF_BY(R, n, _rte) FROM_HALF_BY(R, n, _rtz) FROM_HALF_BY(R, n, _rtp) FROM_HALF_BY(R, n, _rtn)
#define FROM_HALF_SAT(n, R) \
    FROM_HALF_BY(R, n, _sat) FROM_HALF_BY(R, n, _sat_rte) FROM_HALF_BY(R, n, _sat_rtz) FROM_HALF_BY(R, n, _sat_rtp) FROM_HALF_BY(R, n, _sat_rtn)
#define FROM_HALF_BY(R, n, suffix) \
    OVER R##n convert_##R##n##suffix(float##n); \
    CONVERT_BY(R, half, suffix, n, convert_##R##n##suffix(__q_wide(a)))
#define TO_WHOLES(R) EACH_SIZE(FROM_HALF, R) EACH_SIZE(FROM_HALF_SAT, R)
TO_WHOLES(char) TO_WHOLES(uchar) TO_WHOLES(short) TO_WHOLES(ushort) TO_WHOLES(int) TO_WHOLES(uint) TO_WHOLES(long) TO_WHOLES(ulong)
EACH_SIZE(FROM_HALF, float) EACH_SIZE(FROM_HALF, double)
// What `double` does not have of long numbers is more than a `half` can be.
#define ROUNDED_TO_HALF(T, suffix, way) \
    OVER half convert_half##suffix(T a) { return __builtin_astype(__q_half((double)a, way), half); } \
    OVER half2 convert_half2##suffix(T##2 a) { return (half2)(convert_half##suffix(a.x), convert_half##suffix(a.y)); } \
    OVER half3 convert_half3##suffix(T##3 a) { return (half3)(convert_half##suffix(a.x), convert_half##suffix(a.y), convert_half##suffix(a.z)); } \
    OVER half4 convert_half4##suffix(T##4 a) { return (half4)(convert_half2##suffix(a.lo), convert_half2##suffix(a.hi)); } \
    OVER half8 convert_half8##suffix(T##8 a) { return (half8)(convert_half4##suffix(a.lo), convert_half4##suffix(a.hi)); } \
    OVER half16 convert_half16##suffix(T##16 a) { return (half16)(convert_half8##suffix(a.lo), convert_half8##suffix(a.hi)); }
#define NEAREST_HALF(n, T, suffix) OVER half##n convert_half##n##suffix(T##n a) { return __q_narrow(__builtin_convertvector(a, float##n)); }
#define NEAREST_HALVES(T, suffix) \
    OVER half convert_half##suffix(T a) { return (half)(float)a; } EACH_VECTOR(NEAREST_HALF, T, suffix)
#define TO_HALF(T) \
    NEAREST_HALVES(T, ) NEAREST_HALVES(T, _rte) \
    ROUNDED_TO_HALF(T, _rtz, TO_ZERO) ROUNDED_TO_HALF(T, _rtp, UP) ROUNDED_TO_HALF(T, _rtn, DOWN)
TO_HALF(char) TO_HALF(uchar) TO_HALF(short) TO_HALF(ushort) TO_HALF(int) TO_HALF(uint) TO_HALF(long) TO_HALF(ulong) TO_HALF(float)
ROUNDED_TO_HALF(double, _rtz, TO_ZERO) ROUNDED_TO_HALF(double, _rtp, UP) ROUNDED_TO_HALF(double, _rtn, DOWN)
#define OF_DOUBLE(suffix) OVER half convert_half##suffix(double a) { return __q_half_of(a); } SIZES_OF_DOUBLE(suffix)
#define SIZES_OF_DOUBLE(suffix) \
    OVER half2 convert_half2##suffix(double2 a) { return (half2)(__q_half_of(a.x), __q_half_of(a.y)); } \
    OVER half3 convert_half3##suffix(double3 a) { return (half3)(__q_half_of(a.x), __q_half_of(a.y), __q_half_of(a.z)); } \
    OVER half4 convert_half4##suffix(double4 a) { return (half4)(convert_half2##suffix(a.lo), convert_half2##suffix(a.hi)); } \
    OVER half8 convert_half8##suffix(double8 a) { return (half8)(convert_half4##suffix(a.lo), convert_half4##suffix(a.hi)); } \
    OVER half16 convert_half16##suffix(double16 a) { return (half16)(convert_half8##suffix(a.lo), convert_half8##suffix(a.hi)); }
OF_DOUBLE() OF_DOUBLE(_rte)
#define SAME_HALF(n, suffix) OVER half##n convert_half##n##suffix(half##n a) { return a; }
EACH_SIZE(SAME_HALF, ) EACH_SIZE(SAME_HALF, _rte) EACH_SIZE(SAME_HALF, _rtz) EACH_SIZE(SAME_HALF, _rtp) EACH_SIZE(SAME_HALF, _rtn)
#endif
