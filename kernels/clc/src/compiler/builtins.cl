// The built-in functions of OpenCL C for processors, in OpenCL C. Each part is compiled when a program first asks for it,
// once for each compiler, and linked to what programs ask for. A function that is not here is refused by name.
//
// Scalar functions come from clang's own built-ins and from the system's libm; vectors are made of scalars, since the
// passes turn vectors into scalars anyway before they make vectors across work-items.

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef ulong size_t;

#define SIZES(T) \
    typedef T T##2 __attribute__((ext_vector_type(2))); \
    typedef T T##3 __attribute__((ext_vector_type(3))); \
    typedef T T##4 __attribute__((ext_vector_type(4))); \
    typedef T T##8 __attribute__((ext_vector_type(8))); \
    typedef T T##16 __attribute__((ext_vector_type(16)));
SIZES(char) SIZES(uchar) SIZES(short) SIZES(ushort) SIZES(int) SIZES(uint) SIZES(long) SIZES(ulong) SIZES(float) SIZES(double)
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
SIZES(half)

// The numbers that clang and SPIR-V's translators have for them.
typedef enum memory_scope {
    memory_scope_work_item, memory_scope_work_group, memory_scope_device, memory_scope_all_svm_devices, memory_scope_sub_group
} memory_scope;
typedef enum memory_order {
    memory_order_relaxed = __ATOMIC_RELAXED, memory_order_acquire = __ATOMIC_ACQUIRE, memory_order_release = __ATOMIC_RELEASE,
    memory_order_acq_rel = __ATOMIC_ACQ_REL, memory_order_seq_cst = __ATOMIC_SEQ_CST
} memory_order;

// Between the work-items of a group, which one thread runs on processors, a fence is one of that thread alone.
#define FENCE(is_of_group, order) do { if (is_of_group) __atomic_signal_fence(order); else __atomic_thread_fence(order); } while (0)
#define IS_OF_GROUP(scope) ((scope) != memory_scope_device && (scope) != memory_scope_all_svm_devices)

#define OVER __attribute__((overloadable, always_inline))
#define PURE __attribute__((const, nothrow))

// What the passes replace: see `workgroup`.
PURE uint __q_lid0(void);
PURE uint __q_lid1(void);
PURE uint __q_lid2(void);
PURE uint __q_gid0(void);
PURE uint __q_gid1(void);
PURE uint __q_gid2(void);
PURE uint __q_group0(void);
PURE uint __q_group1(void);
PURE uint __q_group2(void);
PURE ulong __q_info(uint);
__attribute__((convergent)) void __q_barrier(void);

#ifdef PART_work
#define INFO(name, base, other) \
    OVER size_t name(uint d) { return d == 0 ? __q_info(base) : d == 1 ? __q_info(base + 1) : d == 2 ? __q_info(base + 2) : other; }
#define ID(name, of, other) \
    OVER size_t name(uint d) { return d == 0 ? (size_t)of##0() : d == 1 ? (size_t)of##1() : d == 2 ? (size_t)of##2() : other; }
// Of a wide launch, numbers are told from the first work-item and the first group of a part of it, and those are numbers of their own.
#ifdef WIDE
#define ID_FROM_OFFSET(d) ((size_t)__q_gid##d() + __q_info(14 + d))
#define GROUP(d) ((size_t)__q_group##d() + __q_info(20 + d))
INFO(get_num_groups, 23, 1)
INFO(get_global_offset, 26, 0)
#else
#define ID_FROM_OFFSET(d) ((size_t)__q_gid##d())
#define GROUP(d) ((size_t)__q_group##d())
INFO(get_num_groups, 9, 1)
INFO(get_global_offset, 3, 0)
#endif
INFO(get_global_size, 0, 1)
INFO(get_local_size, 6, 1)
INFO(get_enqueued_local_size, 17, 1)
OVER size_t get_global_id(uint d) { return d == 0 ? ID_FROM_OFFSET(0) : d == 1 ? ID_FROM_OFFSET(1) : d == 2 ? ID_FROM_OFFSET(2) : 0; }
ID(get_local_id, __q_lid, 0)
OVER size_t get_group_id(uint d) { return d == 0 ? GROUP(0) : d == 1 ? GROUP(1) : d == 2 ? GROUP(2) : 0; }
OVER uint get_work_dim(void) { return (uint)__q_info(12); }
OVER size_t get_local_linear_id(void) {
    return ((size_t)__q_lid2() * __q_info(7) + __q_lid1()) * __q_info(6) + __q_lid0();
}
OVER size_t get_global_linear_id(void) {
    return ((get_global_id(2) - get_global_offset(2)) * __q_info(1) + (get_global_id(1) - get_global_offset(1))) * __q_info(0)
        + (get_global_id(0) - get_global_offset(0));
}

#define IS_LOCAL(flags) ((flags) == 1)
OVER void barrier(uint flags) { __q_barrier(); }
OVER void work_group_barrier(uint flags) { __q_barrier(); }
OVER void work_group_barrier(uint flags, memory_scope scope) {
    int is_of_group = IS_LOCAL(flags) || IS_OF_GROUP(scope);
    if (!is_of_group) __atomic_thread_fence(__ATOMIC_RELEASE);
    __q_barrier();
    if (!is_of_group) __atomic_thread_fence(__ATOMIC_ACQUIRE);
}
OVER void mem_fence(uint flags) { FENCE(IS_LOCAL(flags), __ATOMIC_ACQ_REL); }
OVER void read_mem_fence(uint flags) { FENCE(IS_LOCAL(flags), __ATOMIC_ACQUIRE); }
OVER void write_mem_fence(uint flags) { FENCE(IS_LOCAL(flags), __ATOMIC_RELEASE); }
#endif

#ifdef PART_async
// Copies by a whole group: each work-item copies its share at once, and all wait for each other where they wait for it.
#define FIRST (((size_t)__q_lid2() * __q_info(7) + __q_lid1()) * __q_info(6) + __q_lid0())
#define ITEMS (__q_info(6) * __q_info(7) * __q_info(8))
#define COPY(T) \
    OVER event_t async_work_group_copy(__local T *to, const __global T *from, size_t n, event_t event) { \
        for (size_t i = FIRST; i < n; i += ITEMS) to[i] = from[i]; \
        return event; \
    } \
    OVER event_t async_work_group_copy(__global T *to, const __local T *from, size_t n, event_t event) { \
        for (size_t i = FIRST; i < n; i += ITEMS) to[i] = from[i]; \
        return event; \
    } \
    OVER event_t async_work_group_strided_copy(__local T *to, const __global T *from, size_t n, size_t stride, event_t event) { \
        for (size_t i = FIRST; i < n; i += ITEMS) to[i] = from[i * stride]; \
        return event; \
    } \
    OVER event_t async_work_group_strided_copy(__global T *to, const __local T *from, size_t n, size_t stride, event_t event) { \
        for (size_t i = FIRST; i < n; i += ITEMS) to[i * stride] = from[i]; \
        return event; \
    } \
    /* As SPIR-V's translators have them, with events that are pointers. */ \
    OVER void *__q_async_work_group_strided_copy(__local T *to, const __global T *from, size_t n, size_t stride, void *event) { \
        for (size_t i = FIRST; i < n; i += ITEMS) to[i] = from[i * stride]; \
        return event; \
    } \
    OVER void *__q_async_work_group_strided_copy(__global T *to, const __local T *from, size_t n, size_t stride, void *event) { \
        for (size_t i = FIRST; i < n; i += ITEMS) to[i * stride] = from[i]; \
        return event; \
    } \
    OVER void prefetch(const __global T *from, size_t n) {}
#define COPIES(T) COPY(T) COPY(T##2) COPY(T##3) COPY(T##4) COPY(T##8) COPY(T##16)
COPIES(char) COPIES(uchar) COPIES(short) COPIES(ushort) COPIES(int) COPIES(uint) COPIES(long) COPIES(ulong) COPIES(float) COPIES(double)
COPIES(half)

// clang has them in generic memory, and its header where a work-item has its own.
OVER void wait_group_events(int count, event_t *events) { __q_barrier(); }
OVER void wait_group_events(int count, __attribute__((address_space(4))) event_t *events) { __q_barrier(); }
#endif

// A function of vectors from one of scalars.
#define MAP1(name, R, T) \
    OVER R##2 name(T##2 a) { return (R##2)(name(a.x), name(a.y)); } \
    OVER R##3 name(T##3 a) { return (R##3)(name(a.x), name(a.y), name(a.z)); } \
    OVER R##4 name(T##4 a) { return (R##4)(name(a.lo), name(a.hi)); } \
    OVER R##8 name(T##8 a) { return (R##8)(name(a.lo), name(a.hi)); } \
    OVER R##16 name(T##16 a) { return (R##16)(name(a.lo), name(a.hi)); }
#define MAP2(name, R, T, U) \
    OVER R##2 name(T##2 a, U##2 b) { return (R##2)(name(a.x, b.x), name(a.y, b.y)); } \
    OVER R##3 name(T##3 a, U##3 b) { return (R##3)(name(a.x, b.x), name(a.y, b.y), name(a.z, b.z)); } \
    OVER R##4 name(T##4 a, U##4 b) { return (R##4)(name(a.lo, b.lo), name(a.hi, b.hi)); } \
    OVER R##8 name(T##8 a, U##8 b) { return (R##8)(name(a.lo, b.lo), name(a.hi, b.hi)); } \
    OVER R##16 name(T##16 a, U##16 b) { return (R##16)(name(a.lo, b.lo), name(a.hi, b.hi)); }
#define MAP3(name, R, T, U, V) \
    OVER R##2 name(T##2 a, U##2 b, V##2 c) { return (R##2)(name(a.x, b.x, c.x), name(a.y, b.y, c.y)); } \
    OVER R##3 name(T##3 a, U##3 b, V##3 c) { return (R##3)(name(a.x, b.x, c.x), name(a.y, b.y, c.y), name(a.z, b.z, c.z)); } \
    OVER R##4 name(T##4 a, U##4 b, V##4 c) { return (R##4)(name(a.lo, b.lo, c.lo), name(a.hi, b.hi, c.hi)); } \
    OVER R##8 name(T##8 a, U##8 b, V##8 c) { return (R##8)(name(a.lo, b.lo, c.lo), name(a.hi, b.hi, c.hi)); } \
    OVER R##16 name(T##16 a, U##16 b, V##16 c) { return (R##16)(name(a.lo, b.lo, c.lo), name(a.hi, b.hi, c.hi)); }
// The second or third argument is one scalar for all.
#define SPREAD2(name, T, U) \
    OVER T##2 name(T##2 a, U b) { return name(a, (T##2)(b)); } \
    OVER T##3 name(T##3 a, U b) { return name(a, (T##3)(b)); } \
    OVER T##4 name(T##4 a, U b) { return name(a, (T##4)(b)); } \
    OVER T##8 name(T##8 a, U b) { return name(a, (T##8)(b)); } \
    OVER T##16 name(T##16 a, U b) { return name(a, (T##16)(b)); }

#ifdef PART_math
// Mathematical functions.
#define SCALARS1(name, body) \
    OVER float name(float a) { typedef float real; return body; } MAP1(name, float, float) \
    OVER double name(double a) { typedef double real; return body; } MAP1(name, double, double)
#define SCALARS2(name, body) \
    OVER float name(float a, float b) { typedef float real; return body; } MAP2(name, float, float, float) \
    OVER double name(double a, double b) { typedef double real; return body; } MAP2(name, double, double, double)
#define SCALARS3(name, body) \
    OVER float name(float a, float b, float c) { typedef float real; return body; } MAP3(name, float, float, float, float) \
    OVER double name(double a, double b, double c) { typedef double real; return body; } MAP3(name, double, double, double, double)
// The system's have names of their own until a kernel is compiled: those of C are the program's to give.
#define SYSTEM(symbol) __asm__("quipu.math." symbol)
#define LIBM1(name) \
    PURE float __q_f_##name(float) SYSTEM(#name "f"); \
    PURE double __q_d_##name(double) SYSTEM(#name); \
    OVER float name(float a) { return __q_f_##name(a); } MAP1(name, float, float) \
    OVER double name(double a) { return __q_d_##name(a); } MAP1(name, double, double)
#define LIBM2(name) \
    PURE float __q_f_##name(float, float) SYSTEM(#name "f"); \
    PURE double __q_d_##name(double, double) SYSTEM(#name); \
    OVER float name(float a, float b) { return __q_f_##name(a, b); } MAP2(name, float, float, float) \
    OVER double name(double a, double b) { return __q_d_##name(a, b); } MAP2(name, double, double, double)

SCALARS1(ceil, __builtin_elementwise_ceil(a))
SCALARS1(floor, __builtin_elementwise_floor(a))
SCALARS1(trunc, __builtin_elementwise_trunc(a))
SCALARS1(rint, __builtin_elementwise_rint(a))
SCALARS1(round, __builtin_elementwise_round(a))
SCALARS1(sqrt, __builtin_elementwise_sqrt(a))
SCALARS1(fabs, __builtin_elementwise_abs(a))
SCALARS1(rsqrt, (real)1 / __builtin_elementwise_sqrt(a))
// Of `float` they are arithmetic alone, of `double` the system's.
#define EITHER1(name) \
    OVER float name(float a) { return __q_##name(a); } MAP1(name, float, float) \
    OVER double name(double a) { return __builtin_elementwise_##name(a); } MAP1(name, double, double)
// Functions of angles stay functions, so that those of many work-items can be others.
#define OF_ANGLE(name) \
    __attribute__((const, noinline, nothrow)) float __q_form_##name(float) __asm__("quipu.form." #name); \
    float __q_form_##name(float a) { return __q_any_##name(a); }
OF_ANGLE(sin) OF_ANGLE(cos) OF_ANGLE(tan)
#define __q_sin __q_form_sin
#define __q_cos __q_form_cos
#define __q_tan __q_form_tan
EITHER1(sin) EITHER1(cos) EITHER1(exp) EITHER1(exp2) EITHER1(log) EITHER1(log2) EITHER1(log10)
OVER float pow(float a, float b) { return __q_pow(a, b); } MAP2(pow, float, float, float)
OVER double pow(double a, double b) { return __builtin_elementwise_pow(a, b); } MAP2(pow, double, double, double)
#define SYSTEM1(name) \
    PURE double __q_d_##name(double) SYSTEM(#name); \
    OVER float name(float a) { return __q_##name(a); } MAP1(name, float, float) \
    OVER double name(double a) { return __q_d_##name(a); } MAP1(name, double, double)
SYSTEM1(tan) SYSTEM1(tanh) SYSTEM1(exp10)
// What C's gives a number for, and OpenCL's none: a limit that depends on how it is approached.
SCALARS2(powr, a < 0 || a != a || b != b || (b == 0 && (a == 0 || a == (real)__builtin_inf()))
    || (a == 1 && fabs(b) == (real)__builtin_inf()) ? (real)__builtin_nan("") : pow(fabs(a), b))
SCALARS2(copysign, __builtin_elementwise_copysign(a, b))
SCALARS2(fmax, __builtin_elementwise_max(a, b))
SCALARS2(fmin, __builtin_elementwise_min(a, b))
SCALARS3(fma, __builtin_elementwise_fma(a, b, c))
#pragma OPENCL FP_CONTRACT ON
SCALARS3(mad, a * b + c)
#pragma OPENCL FP_CONTRACT OFF
LIBM1(asin) LIBM1(acos) LIBM1(atan)
LIBM1(sinh) LIBM1(cosh) LIBM1(asinh) LIBM1(acosh) LIBM1(atanh)
LIBM1(expm1) LIBM1(log1p) LIBM1(erf) LIBM1(erfc)
LIBM1(tgamma) LIBM1(lgamma) LIBM1(logb)
LIBM2(atan2) LIBM2(fmod) LIBM2(remainder) LIBM2(hypot) LIBM2(fdim) LIBM2(nextafter)
// Systems' functions of `double` may be off by more than two units in the last place, which one step of Newton's method corrects.
PURE float __q_f_cbrt(float) SYSTEM("cbrtf");
PURE double __q_d_cbrt(double) SYSTEM("cbrt");
OVER float cbrt(float a) { return __q_f_cbrt(a); } MAP1(cbrt, float, float)
OVER double cbrt(double a) {
    bool small = fabs(a) < 0x1p-900;
    a *= small ? 0x1p162 : 1.0;
    double r = __q_d_cbrt(a), square = r * r, off = __builtin_elementwise_fma(square, r, -a);
    r = a == 0 || fabs(a) == (double)__builtin_inf() ? r : r - off / (3 * square);
    return small ? r * 0x1p-54 : r;
}
MAP1(cbrt, double, double)
#define PI 3.14159265358979323846
SCALARS1(asinpi, asin(a) / (real)PI)
SCALARS1(acospi, acos(a) / (real)PI)
SCALARS1(atanpi, atan(a) / (real)PI)
SCALARS2(atan2pi, atan2(a, b) / (real)PI)
SCALARS2(maxmag, fabs(a) > fabs(b) ? a : fabs(b) > fabs(a) ? b : fmax(a, b))
SCALARS2(minmag, fabs(a) < fabs(b) ? a : fabs(b) < fabs(a) ? b : fmin(a, b))
// Exactly reduced to within a half, so that the multiples of a half are exact.
OVER double __q_sinpi(double a) {
    double r = a - 2 * rint(a * 0.5);
    double m = fabs(r);
    m = m > 0.5 ? 1 - m : m;
    double s = m > 0.25 ? cos((0.5 - m) * PI) : sin(m * PI);
    return copysign(s, m == 0 ? a : r);
}
OVER double __q_cospi(double a) {
    double r = fabs(a - 2 * rint(a * 0.5));
    return r < 0.25 ? cos(r * PI) : r > 0.75 ? -cos((1 - r) * PI) : sin((0.5 - r) * PI);
}
#define OF_PI(name) \
    OVER float name(float a) { return __q_f_##name(a); } MAP1(name, float, float) \
    OVER double name(double a) { return __q_##name(a); } MAP1(name, double, double)
OVER double __q_tanpi(double a) { return __q_sinpi(a) / __q_cospi(a); }
OF_PI(sinpi) OF_PI(cospi) OF_PI(tanpi)

PURE float __q_f_ldexp(float, int) SYSTEM("ldexpf");
PURE double __q_d_ldexp(double, int) SYSTEM("ldexp");
PURE int __q_f_ilogb(float) SYSTEM("ilogbf");
PURE int __q_d_ilogb(double) SYSTEM("ilogb");
OVER float ldexp(float a, int b) { return __q_f_ldexp(a, b); }
OVER double ldexp(double a, int b) { return __q_d_ldexp(a, b); }
OVER float pown(float a, int b) { return __q_power(a, (double)b); }
OVER double pown(double a, int b) { return pow(a, (double)b); }
OVER double rootn(double a, int b) {
    if (b == 0 || (a < 0 && !(b & 1))) return __builtin_nan("");
    double of = 1.0 / b, m = fabs(a), r = pow(m, of);
    // What is lost by rounding 1 / b counts as often as the logarithm says.
    if (m > 0 && m < __builtin_inf() && r < __builtin_inf()) r = fma(r, fma(-of, (double)b, 1.0) / b * log(m), r);
    return b & 1 ? copysign(r, a) : r;
}
OVER float rootn(float a, int b) {
    if (b == 0 || (a < 0 && !(b & 1))) return __builtin_nanf("");
    float r = __q_power(fabs(a), 1.0 / b);
    return b & 1 ? copysign(r, a) : r;
}
// The systems differ in what is none of a number.
OVER int ilogb(float a) { return a != a ? 2147483647 : __q_f_ilogb(a); }
OVER int ilogb(double a) { return a != a ? 2147483647 : __q_d_ilogb(a); }
MAP2(ldexp, float, float, int) MAP2(ldexp, double, double, int)
MAP2(pown, float, float, int) MAP2(pown, double, double, int)
MAP2(rootn, float, float, int) MAP2(rootn, double, double, int)
MAP1(ilogb, int, float) MAP1(ilogb, int, double)
#define WITH_INT(T, n) \
    OVER T##n ldexp(T##n a, int b) { return ldexp(a, (int##n)(b)); }
WITH_INT(float, 2) WITH_INT(float, 3) WITH_INT(float, 4) WITH_INT(float, 8) WITH_INT(float, 16)
WITH_INT(double, 2) WITH_INT(double, 3) WITH_INT(double, 4) WITH_INT(double, 8) WITH_INT(double, 16)
SPREAD2(fmax, float, float) SPREAD2(fmin, float, float) SPREAD2(fmax, double, double) SPREAD2(fmin, double, double)
OVER float nan(uint a) { union { uint i; float f; } u; u.i = 0x7fc00000u | a; return u.f; }
OVER double nan(ulong a) { union { ulong i; double f; } u; u.i = 0x7ff8000000000000ul | a; return u.f; }
MAP1(nan, float, uint) MAP1(nan, double, ulong)

#define NATIVE1(name) OVER float native_##name(float a) { return name(a); } MAP1(native_##name, float, float) \
    OVER float half_##name(float a) { return name(a); } MAP1(half_##name, float, float)
// Angles of 2^16 and more have any result.
#define NATIVE_ANGLE(name) OVER float native_##name(float a) { return __q_near_##name(a); } MAP1(native_##name, float, float) \
    OVER float half_##name(float a) { return __q_near_##name(a); } MAP1(half_##name, float, float)
NATIVE_ANGLE(sin) NATIVE_ANGLE(cos) NATIVE_ANGLE(tan)
NATIVE1(exp) NATIVE1(exp2) NATIVE1(exp10) NATIVE1(log) NATIVE1(log2) NATIVE1(log10)
NATIVE1(sqrt) NATIVE1(rsqrt)
#define FAST1(name, body) OVER float name(float a) { return body; } MAP1(name, float, float)
#define FAST2(name, body) OVER float name(float a, float b) { return body; } MAP2(name, float, float, float)
FAST1(native_recip, 1.0f / a) FAST1(half_recip, 1.0f / a)
FAST2(native_divide, a / b) FAST2(half_divide, a / b) FAST2(native_powr, powr(a, b)) FAST2(half_powr, powr(a, b))

// Functions with a second result, by an address in any space.
#define TO_EACH(T, S) \
    OVER T sincos(T a, S T *c) { *c = cos(a); return sin(a); } \
    OVER T fract(T a, S T *f) { \
        T l = floor(a), r = a - l; *f = l; \
        int is_bare = a == 0 || fabs(a) == (T)__builtin_inf(); \
        return is_bare ? copysign((T)0, a) : r > (T)ONE_LESS_##T ? (T)ONE_LESS_##T : r; } \
    OVER T modf(T a, S T *i) { T t = trunc(a); *i = t; return copysign(fabs(a) == (T)__builtin_inf() ? (T)0 : a - t, a); }
#define ONE_LESS_float 0x1.fffffep-1f
#define ONE_LESS_double 0x1.fffffffffffffp-1
#define BY_VECTOR(name, T, R, S) \
    OVER T##2 name(T##2 a, S R##2 *r) { R x, y; T##2 s; s.x = name(a.x, &x); s.y = name(a.y, &y); *r = (R##2)(x, y); return s; } \
    OVER T##3 name(T##3 a, S R##3 *r) { R x, y, z; T##3 s; s.x = name(a.x, &x); s.y = name(a.y, &y); s.z = name(a.z, &z); *r = (R##3)(x, y, z); return s; } \
    BY_HALVES(name, T, R, S, 2, 4) BY_HALVES(name, T, R, S, 4, 8) BY_HALVES(name, T, R, S, 8, 16)
#define BY_HALVES(name, T, R, S, h, n) \
    OVER T##n name(T##n a, S R##n *r) { R##h x, y; T##n s; s.lo = name(a.lo, &x); s.hi = name(a.hi, &y); *r = (R##n)(x, y); return s; }
#define BY_VECTOR2(name, T, R, S) \
    OVER T##2 name(T##2 a, T##2 b, S R##2 *r) { R x, y; T##2 s; s.x = name(a.x, b.x, &x); s.y = name(a.y, b.y, &y); *r = (R##2)(x, y); return s; } \
    OVER T##3 name(T##3 a, T##3 b, S R##3 *r) { \
        R x, y, z; T##3 s; s.x = name(a.x, b.x, &x); s.y = name(a.y, b.y, &y); s.z = name(a.z, b.z, &z); *r = (R##3)(x, y, z); return s; } \
    BY_HALVES2(name, T, R, S, 2, 4) BY_HALVES2(name, T, R, S, 4, 8) BY_HALVES2(name, T, R, S, 8, 16)
#define BY_HALVES2(name, T, R, S, h, n) \
    OVER T##n name(T##n a, T##n b, S R##n *r) { \
        R##h x, y; T##n s; s.lo = name(a.lo, b.lo, &x); s.hi = name(a.hi, b.hi, &y); *r = (R##n)(x, y); return s; }
// The private space comes first: vectors are made of it.
#define IN_EACH_SPACE(macro, ...) macro(__VA_ARGS__, __private) macro(__VA_ARGS__, __global) macro(__VA_ARGS__, __local)
IN_EACH_SPACE(TO_EACH, float) IN_EACH_SPACE(TO_EACH, double)
IN_EACH_SPACE(BY_VECTOR, sincos, float, float) IN_EACH_SPACE(BY_VECTOR, fract, float, float) IN_EACH_SPACE(BY_VECTOR, modf, float, float)
IN_EACH_SPACE(BY_VECTOR, sincos, double, double) IN_EACH_SPACE(BY_VECTOR, fract, double, double) IN_EACH_SPACE(BY_VECTOR, modf, double, double)
float __q_f_frexp(float, int *) SYSTEM("frexpf");
double __q_d_frexp(double, int *) SYSTEM("frexp");
float __q_f_lgamma_r(float, int *) SYSTEM("lgammaf_r");
double __q_d_lgamma_r(double, int *) SYSTEM("lgamma_r");
#define WITH_NUMBER(name, S) \
    OVER float name(float a, S int *e) { int x; float r = __q_f_##name(a, &x); *e = x; return r; } \
    OVER double name(double a, S int *e) { int x; double r = __q_d_##name(a, &x); *e = x; return r; }
// Memory of no one space, in OpenCL C 2.0 and later.
#define ANY_SPACE __attribute__((address_space(4)))
IN_EACH_SPACE(WITH_NUMBER, frexp) IN_EACH_SPACE(WITH_NUMBER, lgamma_r) WITH_NUMBER(lgamma_r, ANY_SPACE)
IN_EACH_SPACE(BY_VECTOR, frexp, float, int) IN_EACH_SPACE(BY_VECTOR, frexp, double, int)
IN_EACH_SPACE(BY_VECTOR, lgamma_r, float, int) IN_EACH_SPACE(BY_VECTOR, lgamma_r, double, int)
BY_VECTOR(lgamma_r, float, int, ANY_SPACE) BY_VECTOR(lgamma_r, double, int, ANY_SPACE)
// Seven bits of the quotient, where C's has three. Each subtraction is exact: the two are within a factor of two.
OVER double __q_remquo(double a, double b, int *q) {
    *q = 0;
    double r = fabs(a), m = fabs(b);
    if (a != a || b != b || r == __builtin_inf() || m == 0) return __builtin_nan("");
    if (m == __builtin_inf()) return a;
    int n = 0;
    r = fmod(r, m * 256);
    for (int k = 7; k >= 0; k--) {
        double part = m * (1 << k);
        if (r >= part) { r -= part; n |= 1 << k; }
    }
    // The one that is exact: doubling small numbers, halving large ones.
    int side = m < 1 ? (r + r > m) - (r + r < m) : (r > 0.5 * m) - (r < 0.5 * m);
    if (side > 0 || (side == 0 && (n & 1))) { r -= m; n++; }
    n &= 127;
    *q = (a < 0) != (b < 0) ? -n : n;
    return r == 0 ? copysign(r, a) : a < 0 ? -r : r;
}
#define REMQUO(S) \
    OVER float remquo(float a, float b, S int *q) { int x; float r = (float)__q_remquo(a, b, &x); *q = x; return r; } \
    OVER double remquo(double a, double b, S int *q) { int x; double r = __q_remquo(a, b, &x); *q = x; return r; }
REMQUO(__private) REMQUO(__global) REMQUO(__local) REMQUO(ANY_SPACE)
IN_EACH_SPACE(BY_VECTOR2, remquo, float, int) IN_EACH_SPACE(BY_VECTOR2, remquo, double, int)
BY_VECTOR2(remquo, float, int, ANY_SPACE) BY_VECTOR2(remquo, double, int, ANY_SPACE)

// Common functions.
#define COMMON(T) \
    OVER T degrees(T a) { return a * (T)(180 / PI); } MAP1(degrees, T, T) \
    OVER T radians(T a) { return a * (T)(PI / 180); } MAP1(radians, T, T) \
    OVER T sign(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : a == 0 ? a : (T)0; } MAP1(sign, T, T) \
    OVER T max(T a, T b) { return a < b ? b : a; } MAP2(max, T, T, T) SPREAD2(max, T, T) \
    OVER T min(T a, T b) { return b < a ? b : a; } MAP2(min, T, T, T) SPREAD2(min, T, T) \
    OVER T clamp(T a, T b, T c) { return fmin(fmax(a, b), c); } MAP3(clamp, T, T, T, T) \
    OVER T mix(T a, T b, T c) { return a + (b - a) * c; } MAP3(mix, T, T, T, T) \
    OVER T step(T a, T b) { return b < a ? (T)0 : (T)1; } MAP2(step, T, T, T) \
    OVER T smoothstep(T a, T b, T c) { T t = clamp((c - a) / (b - a), (T)0, (T)1); return t * t * (3 - 2 * t); } \
    MAP3(smoothstep, T, T, T, T) \
    COMMON_SPREAD(T, 2) COMMON_SPREAD(T, 3) COMMON_SPREAD(T, 4) COMMON_SPREAD(T, 8) COMMON_SPREAD(T, 16)
#define COMMON_SPREAD(T, n) \
    OVER T##n clamp(T##n a, T b, T c) { return clamp(a, (T##n)(b), (T##n)(c)); } \
    OVER T##n mix(T##n a, T##n b, T c) { return mix(a, b, (T##n)(c)); } \
    OVER T##n step(T a, T##n b) { return step((T##n)(a), b); } \
    OVER T##n smoothstep(T a, T b, T##n c) { return smoothstep((T##n)(a), (T##n)(b), c); }
COMMON(float) COMMON(double)

// Geometric functions.
#define GEOMETRIC(T) \
    OVER T dot(T a, T b) { return a * b; } \
    OVER T dot(T##2 a, T##2 b) { return a.x * b.x + a.y * b.y; } \
    OVER T dot(T##3 a, T##3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; } \
    OVER T dot(T##4 a, T##4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; } \
    OVER T##3 cross(T##3 a, T##3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; } \
    OVER T##4 cross(T##4 a, T##4 b) { return (T##4)(cross(a.xyz, b.xyz), (T)0); } \
    /* Of infinite elements the direction is what counts. */ \
    OVER T __q_finite(T a) { return copysign(fabs(a) == (T)__builtin_inf() ? (T)1 : (T)0, a); } MAP1(__q_finite, T, T)
GEOMETRIC(float) GEOMETRIC(double)
// Squares may be too large or too small: those of `float` are numbers of `double`, and those of `double` are scaled.
OVER double __q_square(float a) { return (double)a * a; }
OVER double __q_square(float2 a) { return dot(__builtin_convertvector(a, double2), __builtin_convertvector(a, double2)); }
OVER double __q_square(float3 a) { return dot(__builtin_convertvector(a, double3), __builtin_convertvector(a, double3)); }
OVER double __q_square(float4 a) { return dot(__builtin_convertvector(a, double4), __builtin_convertvector(a, double4)); }
OVER float __q_times(float a, double by) { return (float)(a * by); }
OVER float2 __q_times(float2 a, double by) { return __builtin_convertvector(__builtin_convertvector(a, double2) * by, float2); }
OVER float3 __q_times(float3 a, double by) { return __builtin_convertvector(__builtin_convertvector(a, double3) * by, float3); }
OVER float4 __q_times(float4 a, double by) { return __builtin_convertvector(__builtin_convertvector(a, double4) * by, float4); }
OVER double __q_most(double a) { return fabs(a); }
OVER double __q_most(double2 a) { return fmax(fabs(a.x), fabs(a.y)); }
OVER double __q_most(double3 a) { return fmax(__q_most(a.xy), fabs(a.z)); }
OVER double __q_most(double4 a) { return fmax(__q_most(a.lo), __q_most(a.hi)); }
OVER double __q_scale(double most) { return most > 0x1p500 ? 0x1p-600 : most < 0x1p-450 ? 0x1p600 : 1; }
#define LENGTHS(V) \
    OVER float length(V a) { return (float)sqrt(__q_square(a)); } \
    OVER float distance(V a, V b) { return length(a - b); } \
    OVER V normalize(V a) { \
        double d = __q_square(a); \
        if (d == __builtin_inf()) { a = __q_finite(a); d = __q_square(a); } \
        return d == 0 ? a : __q_times(a, 1 / sqrt(d)); }
LENGTHS(float) LENGTHS(float2) LENGTHS(float3) LENGTHS(float4)
#define SCALED_LENGTHS(V) \
    OVER double length(V a) { double s = __q_scale(__q_most(a)); a *= s; return sqrt(dot(a, a)) / s; } \
    OVER double distance(V a, V b) { return length(a - b); } \
    OVER V normalize(V a) { \
        double m = __q_most(a); \
        if (m == __builtin_inf()) { a = __q_finite(a); m = 1; } \
        double s = __q_scale(m), d = dot(a * s, a * s), q = sqrt(d); \
        /* Small elements beside large ones are not scaled down before they are divided. */ \
        return d == 0 ? a : s > 1 ? a * s / q : a / q * s; }
SCALED_LENGTHS(double) SCALED_LENGTHS(double2) SCALED_LENGTHS(double3) SCALED_LENGTHS(double4)
#define FAST_LENGTHS(V) \
    OVER float fast_length(V a) { return sqrt(dot(a, a)); } \
    OVER float fast_distance(V a, V b) { return fast_length(a - b); } \
    OVER V fast_normalize(V a) { float d = dot(a, a); return d == 0 ? a : a * rsqrt(d); }
FAST_LENGTHS(float) FAST_LENGTHS(float2) FAST_LENGTHS(float3) FAST_LENGTHS(float4)
#endif

#ifdef PART_integer
// clang's own functions take narrow numbers as `int`s, whose bounds are others.
#define SATURATE_NARROW(T, low, high) \
    OVER T add_sat(T a, T b) { int r = (int)a + (int)b; return r < low ? (T)low : r > high ? (T)high : (T)r; } \
    OVER T sub_sat(T a, T b) { int r = (int)a - (int)b; return r < low ? (T)low : r > high ? (T)high : (T)r; }
#define SATURATE(T) \
    OVER T add_sat(T a, T b) { return __builtin_elementwise_add_sat(a, b); } \
    OVER T sub_sat(T a, T b) { return __builtin_elementwise_sub_sat(a, b); }
SATURATE_NARROW(char, -128, 127) SATURATE_NARROW(uchar, 0, 255) SATURATE_NARROW(short, -32768, 32767) SATURATE_NARROW(ushort, 0, 65535)
SATURATE(int) SATURATE(uint) SATURATE(long) SATURATE(ulong)

// Integer functions. `W` is twice as wide, `U` without a sign.
#define INTEGER(T, U, bits) \
    OVER T max(T a, T b) { return a > b ? a : b; } MAP2(max, T, T, T) SPREAD2(max, T, T) \
    OVER T min(T a, T b) { return a < b ? a : b; } MAP2(min, T, T, T) SPREAD2(min, T, T) \
    OVER T clamp(T a, T b, T c) { return min(max(a, b), c); } MAP3(clamp, T, T, T, T) \
    INTEGER_SPREAD(T, 2) INTEGER_SPREAD(T, 3) INTEGER_SPREAD(T, 4) INTEGER_SPREAD(T, 8) INTEGER_SPREAD(T, 16) \
    OVER U abs(T a) { return a < 0 ? (U)-(U)a : (U)a; } MAP1(abs, U, T) \
    OVER U abs_diff(T a, T b) { return a > b ? (U)((U)a - (U)b) : (U)((U)b - (U)a); } MAP2(abs_diff, U, T, T) \
    MAP2(add_sat, T, T, T) MAP2(sub_sat, T, T, T) \
    OVER T hadd(T a, T b) { return (T)((a & b) + ((a ^ b) >> 1)); } MAP2(hadd, T, T, T) \
    OVER T rhadd(T a, T b) { return (T)((a | b) - ((a ^ b) >> 1)); } MAP2(rhadd, T, T, T) \
    OVER T rotate(T a, T b) { U n = (U)b & (bits - 1); return (T)(((U)a << n) | ((U)a >> ((bits - n) & (bits - 1)))); } \
    MAP2(rotate, T, T, T) \
    OVER T clz(T a) { return a ? (T)(__builtin_clzl((ulong)(U)a) - (64 - bits)) : (T)bits; } MAP1(clz, T, T) \
    OVER T ctz(T a) { return a ? (T)__builtin_ctzl((ulong)(U)a) : (T)bits; } MAP1(ctz, T, T) \
    OVER T popcount(T a) { return (T)__builtin_popcountl((ulong)(U)a); } MAP1(popcount, T, T) \
    OVER T mad_hi(T a, T b, T c) { return (T)(mul_hi(a, b) + c); } MAP3(mad_hi, T, T, T, T) \
    OVER T mad_sat(T a, T b, T c) { return __q_mad_sat(a, b, c); } MAP3(mad_sat, T, T, T, T)
#define INTEGER_SPREAD(T, n) OVER T##n clamp(T##n a, T b, T c) { return clamp(a, (T##n)(b), (T##n)(c)); }
#define NARROW(T, W, bits, low, high) \
    OVER T mul_hi(T a, T b) { return (T)(((W)a * (W)b) >> bits); } MAP2(mul_hi, T, T, T) \
    OVER T __q_mad_sat(T a, T b, T c) { W r = (W)a * (W)b + (W)c; return r < (W)low ? (T)low : r > (W)high ? (T)high : (T)r; }
NARROW(char, int, 8, -128, 127) NARROW(uchar, int, 8, 0, 255)
NARROW(short, int, 16, -32768, 32767) NARROW(ushort, long, 16, 0, 65535)
NARROW(int, long, 32, (-2147483647 - 1), 2147483647) NARROW(uint, ulong, 32, 0, 4294967295u)
OVER ulong mul_hi(ulong a, ulong b) {
    ulong al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
    ulong m = ah * bl + ((al * bl) >> 32);
    ulong n = al * bh + (m & 0xffffffff);
    return ah * bh + (m >> 32) + (n >> 32);
}
OVER long mul_hi(long a, long b) {
    return (long)(mul_hi((ulong)a, (ulong)b) - (a < 0 ? (ulong)b : 0) - (b < 0 ? (ulong)a : 0));
}
MAP2(mul_hi, long, long, long) MAP2(mul_hi, ulong, ulong, ulong)
OVER long __q_mad_sat(long a, long b, long c) {
    long low = (long)((ulong)a * (ulong)b), high = mul_hi(a, b);
    long sum = (long)((ulong)low + (ulong)c);
    high += (c < 0 ? -1 : 0) + ((ulong)sum < (ulong)low);
    return high == (sum >> 63) ? sum : high < 0 ? (-9223372036854775807l - 1) : 9223372036854775807l;
}
OVER ulong __q_mad_sat(ulong a, ulong b, ulong c) {
    ulong low = a * b, sum = low + c;
    return mul_hi(a, b) || sum < low ? 18446744073709551615ul : sum;
}
INTEGER(char, uchar, 8) INTEGER(uchar, uchar, 8) INTEGER(short, ushort, 16) INTEGER(ushort, ushort, 16)
INTEGER(int, uint, 32) INTEGER(uint, uint, 32) INTEGER(long, ulong, 64) INTEGER(ulong, ulong, 64)
#define MUL24(T) \
    OVER T mul24(T a, T b) { return a * b; } MAP2(mul24, T, T, T) \
    OVER T mad24(T a, T b, T c) { return a * b + c; } MAP3(mad24, T, T, T, T)
MUL24(int) MUL24(uint)
#define UPSAMPLE(W, H, L, bits) OVER W upsample(H a, L b) { return (W)(((W)a << bits) | b); } MAP2(upsample, W, H, L)
UPSAMPLE(short, char, uchar, 8) UPSAMPLE(ushort, uchar, uchar, 8) UPSAMPLE(int, short, ushort, 16)
UPSAMPLE(uint, ushort, ushort, 16) UPSAMPLE(long, int, uint, 32) UPSAMPLE(ulong, uint, uint, 32)
#endif

#ifdef PART_relational
// Relational functions.
#define RELATION2(name, body) \
    OVER int name(float a, float b) { return body; } OVER int name(double a, double b) { return body; } \
    RELATION2_VECTOR(name, float, int, body) RELATION2_VECTOR(name, double, long, body)
#define RELATION2_VECTOR(name, T, I, body) \
    OVER I##2 name(T##2 a, T##2 b) { return body; } OVER I##3 name(T##3 a, T##3 b) { return body; } \
    OVER I##4 name(T##4 a, T##4 b) { return body; } OVER I##8 name(T##8 a, T##8 b) { return body; } \
    OVER I##16 name(T##16 a, T##16 b) { return body; }
RELATION2(isequal, a == b) RELATION2(isnotequal, a != b) RELATION2(isgreater, a > b) RELATION2(isgreaterequal, a >= b)
RELATION2(isless, a < b) RELATION2(islessequal, a <= b) RELATION2(islessgreater, (a < b) || (a > b))
RELATION2(isordered, (a == a) && (b == b)) RELATION2(isunordered, (a != a) || (b != b))
#define RELATION1(name, body) \
    OVER int name(float a) { typedef float real; return body; } OVER int name(double a) { typedef double real; return body; } \
    RELATION1_VECTOR(name, float, int) RELATION1_VECTOR(name, double, long)
#define RELATION1_VECTOR(name, T, I) \
    OVER I##2 name(T##2 a) { return -(I##2)(name(a.x), name(a.y)); } \
    OVER I##3 name(T##3 a) { return -(I##3)(name(a.x), name(a.y), name(a.z)); } \
    OVER I##4 name(T##4 a) { return (I##4)(name(a.lo), name(a.hi)); } \
    OVER I##8 name(T##8 a) { return (I##8)(name(a.lo), name(a.hi)); } \
    OVER I##16 name(T##16 a) { return (I##16)(name(a.lo), name(a.hi)); }
OVER int __q_negative(float a) { return __builtin_astype(a, int) < 0; }
OVER int __q_negative(double a) { return __builtin_astype(a, long) < 0; }
OVER int __q_normal(float a) { uint e = __builtin_astype(a, uint) >> 23 & 0xff; return e != 0 && e != 0xff; }
OVER int __q_normal(double a) { ulong e = __builtin_astype(a, ulong) >> 52 & 0x7ff; return e != 0 && e != 0x7ff; }
RELATION1(isnan, a != a) RELATION1(isinf, __builtin_elementwise_abs(a) == (real)__builtin_inf()) RELATION1(isfinite, __builtin_elementwise_abs(a) < (real)__builtin_inf())
RELATION1(isnormal, __q_normal(a)) RELATION1(signbit, __q_negative(a))
#define LOGIC(T) \
    OVER int any(T a) { return a < 0; } OVER int all(T a) { return a < 0; } \
    OVER int any(T##2 a) { return any(a.x) | any(a.y); } OVER int all(T##2 a) { return all(a.x) & all(a.y); } \
    OVER int any(T##3 a) { return any(a.xy) | any(a.z); } OVER int all(T##3 a) { return all(a.xy) & all(a.z); } \
    OVER int any(T##4 a) { return any(a.lo) | any(a.hi); } OVER int all(T##4 a) { return all(a.lo) & all(a.hi); } \
    OVER int any(T##8 a) { return any(a.lo) | any(a.hi); } OVER int all(T##8 a) { return all(a.lo) & all(a.hi); } \
    OVER int any(T##16 a) { return any(a.lo) | any(a.hi); } OVER int all(T##16 a) { return all(a.lo) & all(a.hi); }
LOGIC(char) LOGIC(short) LOGIC(int) LOGIC(long)
#define CHOOSE(T, I, U) \
    OVER T select(T a, T b, I c) { return c ? b : a; } OVER T select(T a, T b, U c) { return c ? b : a; } \
    CHOOSE_VECTOR(T, I, 2) CHOOSE_VECTOR(T, I, 3) CHOOSE_VECTOR(T, I, 4) CHOOSE_VECTOR(T, I, 8) CHOOSE_VECTOR(T, I, 16) \
    CHOOSE_VECTOR(T, U, 2) CHOOSE_VECTOR(T, U, 3) CHOOSE_VECTOR(T, U, 4) CHOOSE_VECTOR(T, U, 8) CHOOSE_VECTOR(T, U, 16) \
    BITS(T, I) BITS(T##2, I##2) BITS(T##3, I##3) BITS(T##4, I##4) BITS(T##8, I##8) BITS(T##16, I##16)
#define CHOOSE_VECTOR(T, I, n) OVER T##n select(T##n a, T##n b, I##n c) { return c ? b : a; }
#define BITS(T, I) OVER T bitselect(T a, T b, T c) { \
    I m = __builtin_astype(c, I); return __builtin_astype((I)((__builtin_astype(a, I) & ~m) | (__builtin_astype(b, I) & m)), T); }
CHOOSE(char, char, uchar) CHOOSE(uchar, char, uchar) CHOOSE(short, short, ushort) CHOOSE(ushort, short, ushort)
CHOOSE(int, int, uint) CHOOSE(uint, int, uint) CHOOSE(long, long, ulong) CHOOSE(ulong, long, ulong)
CHOOSE(float, int, uint) CHOOSE(double, long, ulong)
#endif

#if defined(PART_memory) || defined(PART_half)
// Vectors in memory that need not be aligned as vectors are.
#define LOAD(T, S, n) \
    OVER T##n vload##n(size_t i, const S T *p) { T##n r; p += i * n; for (int k = 0; k < n; k++) r[k] = p[k]; return r; }
#define STORE(T, S, n) \
    OVER void vstore##n(T##n v, size_t i, S T *p) { p += i * n; for (int k = 0; k < n; k++) p[k] = v[k]; }
#define LOADS(T, S) LOAD(T, S, 2) LOAD(T, S, 3) LOAD(T, S, 4) LOAD(T, S, 8) LOAD(T, S, 16)
#define STORES(T, S) STORE(T, S, 2) STORE(T, S, 3) STORE(T, S, 4) STORE(T, S, 8) STORE(T, S, 16)
#endif
#ifdef PART_memory
#define IN_MEMORY(T) \
    LOADS(T, __global) LOADS(T, __local) LOADS(T, __private) LOADS(T, __constant) STORES(T, __global) STORES(T, __local) STORES(T, __private)
IN_MEMORY(char) IN_MEMORY(uchar) IN_MEMORY(short) IN_MEMORY(ushort) IN_MEMORY(int) IN_MEMORY(uint) IN_MEMORY(long) IN_MEMORY(ulong)
IN_MEMORY(float) IN_MEMORY(double)
#endif

#ifdef PART_half
// Numbers of 16 bits in memory: they are read as wider ones, and written rounded. `half.cl` goes on with what else there is of them.
enum { TO_NEAREST, TO_ZERO, UP, DOWN };
OVER ushort __q_half(double a, int way) {
    ulong bits = __builtin_astype(a, ulong), m = bits & 0xffffffffffffful;
    ushort sign = bits >> 48 & 0x8000;
    int e = (int)(bits >> 52 & 0x7ff) - 1023;
    if (e == 1024) return sign | (m ? 0x7e00 | (ushort)(m >> 42) : 0x7c00);
    bool away = way == UP ? !sign : way == DOWN && sign;
    if (e > 15) return sign | (way == TO_NEAREST || away ? 0x7c00 : 0x7bff);
    if (e > -1023) m |= 1ul << 52;
    // How many bits there are too many: the smallest numbers keep fewer.
    int more = e >= -14 ? 42 : e > -27 ? 28 - e : 55;
    ulong kept = m >> more, rest = m & ((1ul << more) - 1), half_way = 1ul << (more - 1);
    if (way == TO_NEAREST ? rest > half_way || (rest == half_way && (kept & 1)) : away && rest) kept++;
    // The leading one, and what was rounded beyond all bits, are added to the exponent.
    return sign | (ushort)((e >= -14 ? (ulong)(e + 14) << 10 : 0) + kept);
}
OVER ushort __q_half(float a, int way) {
    return way == TO_NEAREST ? __builtin_astype((half)a, ushort) : __q_half((double)a, way);
}
#define HALF_LOADS(S) \
    OVER float __q_1(const S half *p) { return (float)p[0]; } \
    OVER float2 __q_2(const S half *p) { return (float2)((float)p[0], (float)p[1]); } \
    OVER float3 __q_3(const S half *p) { return (float3)((float)p[0], (float)p[1], (float)p[2]); } \
    OVER float4 __q_4(const S half *p) { return (float4)(__q_2(p), __q_2(p + 2)); } \
    OVER float8 __q_8(const S half *p) { return (float8)(__q_4(p), __q_4(p + 4)); } \
    OVER float16 __q_16(const S half *p) { return (float16)(__q_8(p), __q_8(p + 8)); } \
    OVER float vload_half(size_t i, const S half *p) { return __q_1(p + i); } \
    OVER float vloada_half(size_t i, const S half *p) { return __q_1(p + i); } \
    HALF_LOAD(S, 2, 2) HALF_LOAD(S, 3, 4) HALF_LOAD(S, 4, 4) HALF_LOAD(S, 8, 8) HALF_LOAD(S, 16, 16)
#define HALF_LOAD(S, n, apart) \
    OVER float##n vload_half##n(size_t i, const S half *p) { return __q_##n(p + i * n); } \
    OVER float##n vloada_half##n(size_t i, const S half *p) { return __q_##n(p + i * apart); }
#define ANY_SPACE __attribute__((address_space(4)))
HALF_LOADS(__global) HALF_LOADS(__local) HALF_LOADS(__private) HALF_LOADS(__constant) HALF_LOADS(ANY_SPACE)
#define HALF_STORES(T, S) \
    OVER void __q_put(T v, S ushort *p, int way) { p[0] = __q_half(v, way); } \
    OVER void __q_put(T##2 v, S ushort *p, int way) { __q_put(v.x, p, way); __q_put(v.y, p + 1, way); } \
    OVER void __q_put(T##3 v, S ushort *p, int way) { __q_put(v.xy, p, way); __q_put(v.z, p + 2, way); } \
    OVER void __q_put(T##4 v, S ushort *p, int way) { __q_put(v.lo, p, way); __q_put(v.hi, p + 2, way); } \
    OVER void __q_put(T##8 v, S ushort *p, int way) { __q_put(v.lo, p, way); __q_put(v.hi, p + 4, way); } \
    OVER void __q_put(T##16 v, S ushort *p, int way) { __q_put(v.lo, p, way); __q_put(v.hi, p + 8, way); } \
    HALF_ROUNDED(T, S, , TO_NEAREST) HALF_ROUNDED(T, S, _rte, TO_NEAREST) HALF_ROUNDED(T, S, _rtz, TO_ZERO) \
    HALF_ROUNDED(T, S, _rtp, UP) HALF_ROUNDED(T, S, _rtn, DOWN)
#define HALF_ROUNDED(T, S, suffix, way) \
    OVER void vstore_half##suffix(T v, size_t i, S half *p) { __q_put(v, (S ushort *)p + i, way); } \
    OVER void vstorea_half##suffix(T v, size_t i, S half *p) { __q_put(v, (S ushort *)p + i, way); } \
    HALF_STORE(T, S, suffix, way, 2, 2) HALF_STORE(T, S, suffix, way, 3, 4) HALF_STORE(T, S, suffix, way, 4, 4) \
    HALF_STORE(T, S, suffix, way, 8, 8) HALF_STORE(T, S, suffix, way, 16, 16)
#define HALF_STORE(T, S, suffix, way, n, apart) \
    OVER void vstore_half##n##suffix(T##n v, size_t i, S half *p) { __q_put(v, (S ushort *)p + i * n, way); } \
    OVER void vstorea_half##n##suffix(T##n v, size_t i, S half *p) { __q_put(v, (S ushort *)p + i * apart, way); }
HALF_STORES(float, __global) HALF_STORES(float, __local) HALF_STORES(float, __private)
HALF_STORES(double, __global) HALF_STORES(double, __local) HALF_STORES(double, __private)
HALF_STORES(float, ANY_SPACE) HALF_STORES(double, ANY_SPACE)
#endif

#ifdef PART_convert
// Conversions.
#define CONVERT(R, T) \
    OVER R convert_##R(T a) { return (R)a; } CONVERT_VECTOR(R, T, 2) CONVERT_VECTOR(R, T, 3) CONVERT_VECTOR(R, T, 4) \
    CONVERT_VECTOR(R, T, 8) CONVERT_VECTOR(R, T, 16)
#define CONVERT_VECTOR(R, T, n) OVER R##n convert_##R##n(T##n a) { return __builtin_convertvector(a, R##n); }
#define MAP_CONVERT(R, suffix, T) \
    OVER R##2 convert_##R##2##suffix(T##2 a) { return (R##2)(convert_##R##suffix(a.x), convert_##R##suffix(a.y)); } \
    OVER R##3 convert_##R##3##suffix(T##3 a) { return (R##3)(convert_##R##suffix(a.x), convert_##R##suffix(a.y), convert_##R##suffix(a.z)); } \
    OVER R##4 convert_##R##4##suffix(T##4 a) { return (R##4)(convert_##R##2##suffix(a.lo), convert_##R##2##suffix(a.hi)); } \
    OVER R##8 convert_##R##8##suffix(T##8 a) { return (R##8)(convert_##R##4##suffix(a.lo), convert_##R##4##suffix(a.hi)); } \
    OVER R##16 convert_##R##16##suffix(T##16 a) { return (R##16)(convert_##R##8##suffix(a.lo), convert_##R##8##suffix(a.hi)); }
// A float is in range if it is that after it is cut off; what is no number becomes zero.
#define FROM_FLOAT(R, T, low, high) \
    OVER R convert_##R##_sat(T a) { return a != a ? (R)0 : a <= (T)low ? (R)low : a >= (T)high ? (R)high : (R)a; } MAP_CONVERT(R, _sat, T) \
    OVER R convert_##R##_rtz(T a) { return (R)a; } MAP_CONVERT(R, _rtz, T) \
    OVER R convert_##R##_rte(T a) { return (R)__builtin_elementwise_rint(a); } MAP_CONVERT(R, _rte, T) \
    OVER R convert_##R##_rtp(T a) { return (R)__builtin_elementwise_ceil(a); } MAP_CONVERT(R, _rtp, T) \
    OVER R convert_##R##_rtn(T a) { return (R)__builtin_elementwise_floor(a); } MAP_CONVERT(R, _rtn, T) \
    OVER R convert_##R##_sat_rtz(T a) { return convert_##R##_sat(a); } MAP_CONVERT(R, _sat_rtz, T) \
    OVER R convert_##R##_sat_rte(T a) { return convert_##R##_sat(__builtin_elementwise_rint(a)); } MAP_CONVERT(R, _sat_rte, T) \
    OVER R convert_##R##_sat_rtp(T a) { return convert_##R##_sat(__builtin_elementwise_ceil(a)); } MAP_CONVERT(R, _sat_rtp, T) \
    OVER R convert_##R##_sat_rtn(T a) { return convert_##R##_sat(__builtin_elementwise_floor(a)); } MAP_CONVERT(R, _sat_rtn, T)
// A whole number has nothing to round.
#define FROM_INTEGER(R, T) \
    NOT_ROUNDED(R, T, _rte) NOT_ROUNDED(R, T, _rtz) NOT_ROUNDED(R, T, _rtp) NOT_ROUNDED(R, T, _rtn)
#define NOT_ROUNDED(R, T, way) \
    OVER R convert_##R##way(T a) { return (R)a; } MAP_CONVERT(R, way, T) \
    OVER R convert_##R##_sat##way(T a) { return convert_##R##_sat(a); } MAP_CONVERT(R, _sat##way, T)
#define FROM_SIGNED(R, T, low, high) \
    OVER R convert_##R##_sat(T a) { return (long)a < (long)low ? (R)low : a > 0 && (ulong)a > (ulong)high ? (R)high : (R)a; } MAP_CONVERT(R, _sat, T) FROM_INTEGER(R, T)
#define FROM_UNSIGNED(R, T, high) \
    OVER R convert_##R##_sat(T a) { return (ulong)a > (ulong)high ? (R)high : (R)a; } MAP_CONVERT(R, _sat, T) FROM_INTEGER(R, T)
#define TO_INTEGER(R, low, high) \
    FROM_SIGNED(R, char, low, high) FROM_SIGNED(R, short, low, high) FROM_SIGNED(R, int, low, high) FROM_SIGNED(R, long, low, high) \
    FROM_UNSIGNED(R, uchar, high) FROM_UNSIGNED(R, ushort, high) FROM_UNSIGNED(R, uint, high) FROM_UNSIGNED(R, ulong, high) \
    FROM_FLOAT(R, float, low, high) FROM_FLOAT(R, double, low, high)
#define FROM_EACH(R) \
    CONVERT(R, char) CONVERT(R, uchar) CONVERT(R, short) CONVERT(R, ushort) CONVERT(R, int) CONVERT(R, uint) CONVERT(R, long) \
    CONVERT(R, ulong) CONVERT(R, float) CONVERT(R, double)
// `TO` is the type that this part converts to.
#define RANGE_char -128, 127
#define RANGE_uchar 0, 255
#define RANGE_short -32768, 32767
#define RANGE_ushort 0, 65535
#define RANGE_int (-2147483647 - 1), 2147483647
#define RANGE_uint 0, 4294967295u
#define RANGE_long (-9223372036854775807l - 1), 9223372036854775807l
#define RANGE_ulong 0, 18446744073709551615ul
#define EXPAND(macro, ...) macro(__VA_ARGS__)
#define RANGE_OF(R) RANGE_##R
#define RANGE(R) RANGE_OF(R)
EXPAND(FROM_EACH, TO)
#ifdef TO_AN_INTEGER
EXPAND(TO_INTEGER, TO, RANGE(TO))
#else
// Rounded to the nearest, and put right by one step where it has to be on the other side.
OVER float __q_above(float a) { int i = __builtin_astype(a, int); return __builtin_astype(a == 0 ? 1 : i < 0 ? i - 1 : i + 1, float); }
OVER double __q_above(double a) {
    long i = __builtin_astype(a, long);
    return __builtin_astype(a == 0 ? 1l : i < 0 ? i - 1 : i + 1, double);
}
// Positive if the first is greater. Numbers of 32 bits and of `float` are numbers of `double`.
#define SIDE(T) \
    OVER int __q_side(float a, T b) { return ((double)a > (double)b) - ((double)a < (double)b); } \
    OVER int __q_side(double a, T b) { return (a > (double)b) - (a < (double)b); }
SIDE(char) SIDE(uchar) SIDE(short) SIDE(ushort) SIDE(int) SIDE(uint) SIDE(float) SIDE(double)
// Where they differ, the first is whole.
OVER int __q_side(double a, long b) { return a >= 0x1p63 ? 1 : ((long)a > b) - ((long)a < b); }
OVER int __q_side(double a, ulong b) { return a >= 0x1p64 ? 1 : ((ulong)a > b) - ((ulong)a < b); }
OVER int __q_side(float a, long b) { return __q_side((double)a, b); }
OVER int __q_side(float a, ulong b) { return __q_side((double)a, b); }
#define TO_FLOAT(R, T) \
    OVER R convert_##R##_rte(T a) { return (R)a; } MAP_CONVERT(R, _rte, T) \
    OVER R convert_##R##_rtp(T a) { R r = (R)a; return __q_side(r, a) < 0 ? __q_above(r) : r; } MAP_CONVERT(R, _rtp, T) \
    OVER R convert_##R##_rtn(T a) { R r = (R)a; return __q_side(r, a) > 0 ? -__q_above(-r) : r; } MAP_CONVERT(R, _rtn, T) \
    OVER R convert_##R##_rtz(T a) { return a > 0 ? convert_##R##_rtn(a) : convert_##R##_rtp(a); } MAP_CONVERT(R, _rtz, T)
#define TO_FLOATS(R) \
    TO_FLOAT(R, char) TO_FLOAT(R, uchar) TO_FLOAT(R, short) TO_FLOAT(R, ushort) TO_FLOAT(R, int) TO_FLOAT(R, uint) \
    TO_FLOAT(R, long) TO_FLOAT(R, ulong) TO_FLOAT(R, float) TO_FLOAT(R, double)
EXPAND(TO_FLOATS, TO)
#endif
#endif

#ifdef PART_atomic
// Atomic functions of OpenCL 1.2, relaxed.
#define ATOMIC(prefix, T, S) \
    OVER T prefix##_add(volatile S T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); } \
    OVER T prefix##_sub(volatile S T *p, T v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); } \
    OVER T prefix##_inc(volatile S T *p) { return __atomic_fetch_add(p, (T)1, __ATOMIC_RELAXED); } \
    OVER T prefix##_dec(volatile S T *p) { return __atomic_fetch_sub(p, (T)1, __ATOMIC_RELAXED); } \
    OVER T prefix##_and(volatile S T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); } \
    OVER T prefix##_or(volatile S T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); } \
    OVER T prefix##_xor(volatile S T *p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); } \
    OVER T prefix##_min(volatile S T *p, T v) { return __atomic_fetch_min(p, v, __ATOMIC_RELAXED); } \
    OVER T prefix##_max(volatile S T *p, T v) { return __atomic_fetch_max(p, v, __ATOMIC_RELAXED); } \
    OVER T prefix##_xchg(volatile S T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); } \
    OVER T prefix##_cmpxchg(volatile S T *p, T c, T v) { \
        __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return c; }
ATOMIC(atomic, int, __global) ATOMIC(atomic, uint, __global) ATOMIC(atomic, int, __local) ATOMIC(atomic, uint, __local)
ATOMIC(atom, int, __global) ATOMIC(atom, uint, __global) ATOMIC(atom, int, __local) ATOMIC(atom, uint, __local)
ATOMIC(atom, long, __global) ATOMIC(atom, ulong, __global) ATOMIC(atom, long, __local) ATOMIC(atom, ulong, __local)
#define EXCHANGE(S) OVER float atomic_xchg(volatile S float *p, float v) { \
    return __builtin_astype(__atomic_exchange_n((volatile S int *)p, __builtin_astype(v, int), __ATOMIC_RELAXED), float); }
EXCHANGE(__global) EXCHANGE(__local)
#endif


#ifdef PART_image
// Images. An image is a pointer to what follows, a sampler is the number of its literal. What the compiler inlines only
// arranges coordinates; a texel is found and converted by functions that are called, since there are many formats.
typedef struct {
    __global uchar *texels;
    uint width, height, depth, layers;
    ulong row, slice;
    uint order, data;
    uint channels, bytes;
} image_of;
typedef const __global image_of *image;

// What is said of coordinates: how many there are, and whether a number of a layer follows them (in z).
#define LAYERED 4

enum { NONE = 0, EDGE = 2, BORDER = 4, REPEAT = 6, MIRROR = 8, ADDRESSING = 14, NORMALISED = 1, LINEAR = 0x20 };
enum {
    R = 0x10B0, A, RG, RA, RGB, RGBA, BGRA, ARGB, INTENSITY, LUMINANCE, Rx, RGx, RGBx, DEPTH, DEPTH_STENCIL,
    sRGB, sRGBx, sRGBA, sBGRA, ABGR
};
enum {
    SNORM_INT8 = 0x10D0, SNORM_INT16, UNORM_INT8, UNORM_INT16, UNORM_SHORT_565, UNORM_SHORT_555, UNORM_INT_101010,
    SIGNED_INT8, SIGNED_INT16, SIGNED_INT32, UNSIGNED_INT8, UNSIGNED_INT16, UNSIGNED_INT32, HALF_FLOAT, FLOAT
};

#define INNER static inline __attribute__((always_inline))

// From the channels as memory has them to those of a vector.
#define ARRANGED(V, m, zero, one) \
    switch (i->order) { \
    case A: return (V)(zero, zero, zero, m.x); \
    case RG: case RGx: return (V)(m.x, m.y, zero, one); \
    case RA: return (V)(m.x, zero, zero, m.y); \
    case RGB: case RGBx: case sRGB: case sRGBx: return (V)(m.x, m.y, m.z, one); \
    case RGBA: case sRGBA: return m; \
    case BGRA: case sBGRA: return m.zyxw; \
    case ARGB: return m.yzwx; \
    case ABGR: return m.wzyx; \
    case INTENSITY: return m.xxxx; \
    case LUMINANCE: return (V)(m.x, m.x, m.x, one); \
    default: return (V)(m.x, zero, zero, one); \
    }
// And back.
#define STORED(v) \
    switch (i->order) { \
    case A: v = v.wwww; break; \
    case RA: v = v.xwww; break; \
    case BGRA: case sBGRA: v = v.zyxw; break; \
    case ARGB: v = v.wxyz; break; \
    case ABGR: v = v.wzyx; break; \
    }

INNER bool is_srgb(image i) { return i->order >= sRGB && i->order <= sBGRA; }

INNER float4 float_at(image i, __global const uchar *at) {
    float4 m = 0;
    float *to = (float *)&m;
    uint n = i->channels;
    switch (i->data) {
    case SNORM_INT8:
        for (uint c = 0; c < n; c++) to[c] = __builtin_fmaxf(((__global const char *)at)[c] / 127.0f, -1.0f);
        break;
    case SNORM_INT16:
        for (uint c = 0; c < n; c++) to[c] = __builtin_fmaxf(((__global const short *)at)[c] / 32767.0f, -1.0f);
        break;
    case UNORM_INT8:
        for (uint c = 0; c < n; c++) to[c] = at[c] / 255.0f;
        if (is_srgb(i))
            for (uint c = 0; c < 3; c++)
                to[c] = to[c] <= 0.04045f ? to[c] / 12.92f : __builtin_powf((to[c] + 0.055f) / 1.055f, 2.4f);
        break;
    case UNORM_INT16:
        for (uint c = 0; c < n; c++) to[c] = ((__global const ushort *)at)[c] / 65535.0f;
        break;
    case UNORM_SHORT_565: {
        uint v = *(__global const ushort *)at;
        m = (float4)((v >> 11) / 31.0f, (v >> 5 & 63) / 63.0f, (v & 31) / 31.0f, 0);
        break;
    }
    case UNORM_SHORT_555: {
        uint v = *(__global const ushort *)at;
        m = (float4)((v >> 10 & 31) / 31.0f, (v >> 5 & 31) / 31.0f, (v & 31) / 31.0f, 0);
        break;
    }
    case UNORM_INT_101010: {
        uint v = *(__global const uint *)at;
        m = (float4)((v >> 20 & 1023) / 1023.0f, (v >> 10 & 1023) / 1023.0f, (v & 1023) / 1023.0f, 0);
        break;
    }
    case HALF_FLOAT:
        for (uint c = 0; c < n; c++) to[c] = __builtin_load_halff((__global const half *)at + c);
        break;
    case FLOAT:
        for (uint c = 0; c < n; c++) to[c] = ((__global const float *)at)[c];
        break;
    }
    ARRANGED(float4, m, 0.0f, 1.0f)
}

INNER int4 int_at(image i, __global const uchar *at) {
    int4 m = 0;
    int *to = (int *)&m;
    uint n = i->channels;
    switch (i->data) {
    case SIGNED_INT8: for (uint c = 0; c < n; c++) to[c] = ((__global const char *)at)[c]; break;
    case UNSIGNED_INT8: for (uint c = 0; c < n; c++) to[c] = at[c]; break;
    case SIGNED_INT16: for (uint c = 0; c < n; c++) to[c] = ((__global const short *)at)[c]; break;
    case UNSIGNED_INT16: for (uint c = 0; c < n; c++) to[c] = ((__global const ushort *)at)[c]; break;
    case SIGNED_INT32: case UNSIGNED_INT32: for (uint c = 0; c < n; c++) to[c] = ((__global const int *)at)[c]; break;
    }
    ARRANGED(int4, m, 0, 1)
}

// The texel outside of an image: opaque where the format has no alpha.
#define OUTSIDE(V, zero, one) \
    switch (i->order) { \
    case R: case RG: case RGB: case sRGB: case LUMINANCE: return (V)(zero, zero, zero, one); \
    default: return (V)(zero, zero, zero, zero); \
    }
INNER float4 float_outside(image i) { OUTSIDE(float4, 0.0f, 1.0f) }
INNER int4 int_outside(image i) { OUTSIDE(int4, 0, 1) }

INNER bool is_within(image i, int4 c) {
    return (uint)c.x < i->width && (uint)c.y < i->height && (uint)c.z < i->depth * i->layers;
}
INNER __global uchar *place(image i, int4 c) {
    return i->texels + (ulong)c.x * i->bytes + (ulong)c.y * i->row + (ulong)c.z * i->slice;
}
INNER int bounded(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
INNER float fraction(float v) { return v - __builtin_floorf(v); }
// To an integer, also of what is none.
INNER int whole(float v) {
    return (int)__builtin_fminf(__builtin_fmaxf(__builtin_floorf(v), -1073741824.0f), 1073741824.0f);
}
INNER int layer(image i, float v) { return bounded(whole(__builtin_rintf(v)), 0, (int)i->layers - 1); }

// A coordinate where reads repeat or mirror, else in texels.
INNER float scaled(float v, uint size, uint sampler) {
    if (!(sampler & NORMALISED)) return v;
    switch (sampler & ADDRESSING) {
    case REPEAT: return (v - __builtin_floorf(v)) * size;
    case MIRROR: return __builtin_fabsf(v - 2.0f * __builtin_rintf(0.5f * v)) * size;
    default: return v * size;
    }
}
// The number of a texel, by the rule for addresses; -1 is outside.
INNER int addressed(int v, uint size, uint sampler) {
    int last = (int)size - 1;
    switch (sampler & ADDRESSING) {
    case BORDER: return v < 0 || v > last ? -1 : v;
    case REPEAT: return v < 0 ? bounded(v + (int)size, 0, last) : v > last ? bounded(v - (int)size, 0, last) : v;
    default: return bounded(v, 0, last);
    }
}

INNER int4 nearest(image i, uint sampler, float4 c, uint axes) {
    int4 at = 0;
    at.x = addressed(whole(scaled(c.x, i->width, sampler)), i->width, sampler);
    if ((axes & 3) > 1) at.y = addressed(whole(scaled(c.y, i->height, sampler)), i->height, sampler);
    if ((axes & 3) > 2) at.z = addressed(whole(scaled(c.z, i->depth, sampler)), i->depth, sampler);
    if (axes & LAYERED) at.z = layer(i, c.z);
    return at;
}
INNER int4 by_number(image i, uint sampler, int4 c, uint axes) {
    int4 at = 0;
    at.x = addressed(c.x, i->width, sampler);
    if ((axes & 3) > 1) at.y = addressed(c.y, i->height, sampler);
    if ((axes & 3) > 2) at.z = addressed(c.z, i->depth, sampler);
    if (axes & LAYERED) at.z = bounded(c.z, 0, (int)i->layers - 1);
    return at;
}
INNER float4 float_of(image i, int4 at) { return is_within(i, at) ? float_at(i, place(i, at)) : float_outside(i); }
INNER int4 int_of(image i, int4 at) { return is_within(i, at) ? int_at(i, place(i, at)) : int_outside(i); }

#define CALLED(R, name, symbol, attributes, ...) \
    __attribute__((noinline, nothrow attributes)) R name(__VA_ARGS__) __asm__("quipu.image." symbol); \
    R name(__VA_ARGS__)
#define READS , pure

CALLED(float4, read_ff, "read.ff", READS, image i, uint sampler, float4 c, uint axes) {
    if (!(sampler & LINEAR)) return float_of(i, nearest(i, sampler, c, axes));
    float4 u = (float4)(scaled(c.x, i->width, sampler), scaled(c.y, i->height, sampler), scaled(c.z, i->depth, sampler), 0) - 0.5f;
    int4 first = (int4)(whole(u.x), whole(u.y), whole(u.z), 0);
    float4 part = (float4)(fraction(u.x), fraction(u.y), fraction(u.z), 0);
    // What is the same number for both of an axis counts once.
    uint count = 1u << (axes & 3);
    float4 sum = 0;
    for (uint corner = 0; corner < count; corner++) {
        int4 at = 0;
        float weight = corner & 1 ? part.x : 1.0f - part.x;
        at.x = addressed(first.x + (int)(corner & 1), i->width, sampler);
        if ((axes & 3) > 1) {
            weight *= corner & 2 ? part.y : 1.0f - part.y;
            at.y = addressed(first.y + (int)(corner >> 1 & 1), i->height, sampler);
        }
        if ((axes & 3) > 2) {
            weight *= corner & 4 ? part.z : 1.0f - part.z;
            at.z = addressed(first.z + (int)(corner >> 2), i->depth, sampler);
        }
        if (axes & LAYERED) at.z = layer(i, c.z);
        float4 texel = float_of(i, at);
        // What counts for nothing may be infinite.
        if (weight != 0.0f) sum += weight * texel;
    }
    return sum;
}
CALLED(float4, read_fi, "read.fi", READS, image i, uint sampler, int4 c, uint axes) {
    return float_of(i, by_number(i, sampler, c, axes));
}
CALLED(int4, read_if, "read.if", READS, image i, uint sampler, float4 c, uint axes) {
    return int_of(i, nearest(i, sampler, c, axes));
}
CALLED(int4, read_ii, "read.ii", READS, image i, uint sampler, int4 c, uint axes) {
    return int_of(i, by_number(i, sampler, c, axes));
}

INNER float rounded(float v, float low, float high) {
    return __builtin_rintf(__builtin_fminf(__builtin_fmaxf(v, low), high));
}
CALLED(void, write_f, "write.f", , image i, int4 c, float4 v) {
    if (!is_within(i, c)) return;
    __global uchar *at = place(i, c);
    STORED(v)
    uint n = i->channels;
    float *of = (float *)&v;
    switch (i->data) {
    case SNORM_INT8:
        for (uint k = 0; k < n; k++) ((__global char *)at)[k] = (char)rounded(of[k] * 127.0f, -128.0f, 127.0f);
        break;
    case SNORM_INT16:
        for (uint k = 0; k < n; k++) ((__global short *)at)[k] = (short)rounded(of[k] * 32767.0f, -32768.0f, 32767.0f);
        break;
    case UNORM_INT8:
        if (is_srgb(i))
            for (uint k = 0; k < 3; k++) {
                float x = __builtin_fminf(__builtin_fmaxf(of[k], 0.0f), 1.0f);
                of[k] = x < 0.0031308f ? 12.92f * x : 1.055f * __builtin_powf(x, 1.0f / 2.4f) - 0.055f;
            }
        for (uint k = 0; k < n; k++) at[k] = (uchar)rounded(of[k] * 255.0f, 0.0f, 255.0f);
        break;
    case UNORM_INT16:
        for (uint k = 0; k < n; k++) ((__global ushort *)at)[k] = (ushort)rounded(of[k] * 65535.0f, 0.0f, 65535.0f);
        break;
    case UNORM_SHORT_565:
        *(__global ushort *)at = (ushort)((uint)rounded(v.x * 31.0f, 0.0f, 31.0f) << 11
            | (uint)rounded(v.y * 63.0f, 0.0f, 63.0f) << 5 | (uint)rounded(v.z * 31.0f, 0.0f, 31.0f));
        break;
    case UNORM_SHORT_555:
        *(__global ushort *)at = (ushort)((uint)rounded(v.x * 31.0f, 0.0f, 31.0f) << 10
            | (uint)rounded(v.y * 31.0f, 0.0f, 31.0f) << 5 | (uint)rounded(v.z * 31.0f, 0.0f, 31.0f));
        break;
    case UNORM_INT_101010:
        *(__global uint *)at = (uint)rounded(v.x * 1023.0f, 0.0f, 1023.0f) << 20
            | (uint)rounded(v.y * 1023.0f, 0.0f, 1023.0f) << 10 | (uint)rounded(v.z * 1023.0f, 0.0f, 1023.0f);
        break;
    case HALF_FLOAT:
        for (uint k = 0; k < n; k++) __builtin_store_halff(of[k], (__global half *)at + k);
        break;
    case FLOAT:
        for (uint k = 0; k < n; k++) ((__global float *)at)[k] = of[k];
        break;
    }
}
CALLED(void, write_i, "write.i", , image i, int4 c, int4 v) {
    if (!is_within(i, c)) return;
    __global uchar *at = place(i, c);
    STORED(v)
    uint n = i->channels;
    int *of = (int *)&v;
    switch (i->data) {
    case SIGNED_INT8: for (uint k = 0; k < n; k++) ((__global char *)at)[k] = (char)bounded(of[k], -128, 127); break;
    case SIGNED_INT16: for (uint k = 0; k < n; k++) ((__global short *)at)[k] = (short)bounded(of[k], -32768, 32767); break;
    case UNSIGNED_INT8: for (uint k = 0; k < n; k++) at[k] = (uint)of[k] > 255u ? 255 : (uchar)of[k]; break;
    case UNSIGNED_INT16:
        for (uint k = 0; k < n; k++) ((__global ushort *)at)[k] = (uint)of[k] > 65535u ? 65535 : (ushort)of[k];
        break;
    case SIGNED_INT32: case UNSIGNED_INT32: for (uint k = 0; k < n; k++) ((__global int *)at)[k] = of[k]; break;
    }
}

// The functions of the language, by the names that clang calls them.
#define NAMED(attributes, R, name, symbol, parameters) \
    __attribute__((always_inline, nothrow attributes)) R name parameters __asm__(symbol); \
    R name parameters
#define PLAIN (EDGE)

// Reads without a sampler: `c` is how the name has the coordinate, `at` the coordinate as four numbers.
#define READ_BARE(id, type, c, C, at, axes) \
    NAMED(READS, float4, bare_f_##id, "_Z11read_imagef" type c, (image i, C p)) { return read_fi(i, PLAIN, at, axes); } \
    NAMED(READS, half4, bare_h_##id, "_Z11read_imageh" type c, (image i, C p)) { return as_halves(read_fi(i, PLAIN, at, axes)); } \
    NAMED(READS, int4, bare_i_##id, "_Z11read_imagei" type c, (image i, C p)) { return read_ii(i, PLAIN, at, axes); } \
    NAMED(READS, uint4, bare_u_##id, "_Z12read_imageui" type c, (image i, C p)) { return as_uint4(read_ii(i, PLAIN, at, axes)); }
#define READ_BY_SAMPLER(id, type, ci, CI, ati, cf, CF, atf, axes) \
    NAMED(READS, float4, s_ff_##id, "_Z11read_imagef" type "11ocl_sampler" cf, (image i, uint s, CF p)) { return read_ff(i, s, atf, axes); } \
    NAMED(READS, float4, s_fi_##id, "_Z11read_imagef" type "11ocl_sampler" ci, (image i, uint s, CI p)) { return read_fi(i, s, ati, axes); } \
    NAMED(READS, half4, s_hf_##id, "_Z11read_imageh" type "11ocl_sampler" cf, (image i, uint s, CF p)) { return as_halves(read_ff(i, s, atf, axes)); } \
    NAMED(READS, half4, s_hi_##id, "_Z11read_imageh" type "11ocl_sampler" ci, (image i, uint s, CI p)) { return as_halves(read_fi(i, s, ati, axes)); } \
    NAMED(READS, int4, s_if_##id, "_Z11read_imagei" type "11ocl_sampler" cf, (image i, uint s, CF p)) { return read_if(i, s, atf, axes); } \
    NAMED(READS, int4, s_ii_##id, "_Z11read_imagei" type "11ocl_sampler" ci, (image i, uint s, CI p)) { return read_ii(i, s, ati, axes); } \
    NAMED(READS, uint4, s_uf_##id, "_Z12read_imageui" type "11ocl_sampler" cf, (image i, uint s, CF p)) { return as_uint4(read_if(i, s, atf, axes)); } \
    NAMED(READS, uint4, s_ui_##id, "_Z12read_imageui" type "11ocl_sampler" ci, (image i, uint s, CI p)) { return as_uint4(read_ii(i, s, ati, axes)); }
#define WRITE(id, type, c, C, at, again) \
    NAMED(, void, write_f_##id, "_Z12write_imagef" type c "Dv4_f", (image i, C p, float4 v)) { write_f(i, at, v); } \
    NAMED(, void, write_h_##id, "_Z12write_imageh" type c "Dv4_Dh", (image i, C p, half4 v)) { \
        write_f(i, at, __builtin_convertvector(v, float4)); } \
    NAMED(, void, write_i_##id, "_Z12write_imagei" type c again, (image i, C p, int4 v)) { write_i(i, at, v); } \
    NAMED(, void, write_u_##id, "_Z13write_imageui" type c "Dv4_j", (image i, C p, uint4 v)) { write_i(i, at, as_int4(v)); }
#define as_halves(x) __builtin_convertvector(x, half4)
#define as_uint4(x) ((uint4)__builtin_astype(x, uint4))
#define as_int4(x) ((int4)__builtin_astype(x, int4))

#define ASK(id, type) \
    NAMED(READS, int, width_##id, "_Z15get_image_width" type, (image i)) { return (int)i->width; } \
    NAMED(READS, int, type_##id, "_Z27get_image_channel_data_type" type, (image i)) { return (int)i->data; } \
    NAMED(READS, int, order_##id, "_Z23get_image_channel_order" type, (image i)) { return (int)i->order; }
#define ASK_HEIGHT(id, type) \
    NAMED(READS, int, height_##id, "_Z16get_image_height" type, (image i)) { return (int)i->height; } \
    NAMED(READS, int2, dim_##id, "_Z13get_image_dim" type, (image i)) { return (int2)((int)i->width, (int)i->height); }
#define ASK_LAYERS(id, type) \
    NAMED(READS, size_t, layers_##id, "_Z20get_image_array_size" type, (image i)) { return i->layers; }
#define ASK_DEPTH(id, type) \
    NAMED(READS, int, height_##id, "_Z16get_image_height" type, (image i)) { return (int)i->height; } \
    NAMED(READS, int, depth_##id, "_Z15get_image_depth" type, (image i)) { return (int)i->depth; } \
    NAMED(READS, int4, dim_##id, "_Z13get_image_dim" type, (image i)) { return (int4)((int)i->width, (int)i->height, (int)i->depth, 0); }

#define AT1 ((int4)(p, 0, 0, 0))
#define AT2 ((int4)(p, 0, 0))
#define AT1L ((int4)(p.x, 0, p.y, 0))
#define AT1F ((float4)(p, 0, 0, 0))
#define AT2F ((float4)(p, 0, 0))
#define AT1LF ((float4)(p.x, 0, p.y, 0))

#define IMAGE_1D(READ, ro, OTHER) \
    ASK(1d_##ro, "14ocl_image1d_" #ro) READ(READ_BARE(1d_##ro, "14ocl_image1d_" #ro, "i", int, AT1, 1)) \
    OTHER(WRITE(1d_##ro, "14ocl_image1d_" #ro, "i", int, AT1, "Dv4_i"))
#define IMAGE_1D_BUFFER(READ, ro, OTHER) \
    ASK(1db_##ro, "21ocl_image1d_buffer_" #ro) READ(READ_BARE(1db_##ro, "21ocl_image1d_buffer_" #ro, "i", int, AT1, 1)) \
    OTHER(WRITE(1db_##ro, "21ocl_image1d_buffer_" #ro, "i", int, AT1, "Dv4_i"))
#define IMAGE_1D_ARRAY(READ, ro, OTHER) \
    ASK(1da_##ro, "20ocl_image1d_array_" #ro) ASK_LAYERS(1da_##ro, "20ocl_image1d_array_" #ro) \
    READ(READ_BARE(1da_##ro, "20ocl_image1d_array_" #ro, "Dv2_i", int2, AT1L, 1 | LAYERED)) \
    OTHER(WRITE(1da_##ro, "20ocl_image1d_array_" #ro, "Dv2_i", int2, AT1L, "Dv4_i"))
#define IMAGE_2D(READ, ro, OTHER) \
    ASK(2d_##ro, "14ocl_image2d_" #ro) ASK_HEIGHT(2d_##ro, "14ocl_image2d_" #ro) \
    READ(READ_BARE(2d_##ro, "14ocl_image2d_" #ro, "Dv2_i", int2, AT2, 2)) \
    OTHER(WRITE(2d_##ro, "14ocl_image2d_" #ro, "Dv2_i", int2, AT2, "Dv4_i"))
#define IMAGE_2D_ARRAY(READ, ro, OTHER) \
    ASK(2da_##ro, "20ocl_image2d_array_" #ro) ASK_HEIGHT(2da_##ro, "20ocl_image2d_array_" #ro) ASK_LAYERS(2da_##ro, "20ocl_image2d_array_" #ro) \
    READ(READ_BARE(2da_##ro, "20ocl_image2d_array_" #ro, "Dv4_i", int4, p, 2 | LAYERED)) \
    OTHER(WRITE(2da_##ro, "20ocl_image2d_array_" #ro, "Dv4_i", int4, p, "S0_"))
#define IMAGE_3D(READ, ro, OTHER) \
    ASK(3d_##ro, "14ocl_image3d_" #ro) ASK_DEPTH(3d_##ro, "14ocl_image3d_" #ro) \
    READ(READ_BARE(3d_##ro, "14ocl_image3d_" #ro, "Dv4_i", int4, p, 3)) \
    OTHER(WRITE(3d_##ro, "14ocl_image3d_" #ro, "Dv4_i", int4, p, "S0_"))
// Depth is one number.
#define IMAGE_DEPTH(id, type, ci, CI, ati, axes, READ, OTHER) \
    ASK(id, type) ASK_HEIGHT(id, type) \
    READ(NAMED(READS, float, bare_f_##id, "_Z11read_imagef" type ci, (image i, CI p)) { return read_fi(i, PLAIN, ati, axes).x; }) \
    OTHER(NAMED(, void, write_f_##id, "_Z12write_imagef" type ci "f", (image i, CI p, float v)) { write_f(i, ati, v); })
#define DEPTH_BY_SAMPLER(id, type, ci, CI, ati, cf, CF, atf, axes) \
    NAMED(READS, float, s_ff_##id, "_Z11read_imagef" type "11ocl_sampler" cf, (image i, uint s, CF p)) { return read_ff(i, s, atf, axes).x; } \
    NAMED(READS, float, s_fi_##id, "_Z11read_imagef" type "11ocl_sampler" ci, (image i, uint s, CI p)) { return read_fi(i, s, ati, axes).x; }

#define YES(...) __VA_ARGS__
#define NO(...)
#define ALL(READ, ro, OTHER) \
    IMAGE_1D(READ, ro, OTHER) IMAGE_1D_BUFFER(READ, ro, OTHER) IMAGE_1D_ARRAY(READ, ro, OTHER) \
    IMAGE_2D(READ, ro, OTHER) IMAGE_2D_ARRAY(READ, ro, OTHER) IMAGE_3D(READ, ro, OTHER) \
    IMAGE_DEPTH(2dd_##ro, "20ocl_image2d_depth_" #ro, "Dv2_i", int2, AT2, 2, READ, OTHER) \
    IMAGE_DEPTH(2dad_##ro, "26ocl_image2d_array_depth_" #ro, "Dv4_i", int4, p, 2 | LAYERED, READ, OTHER) \
    ASK_LAYERS(2dad_##ro, "26ocl_image2d_array_depth_" #ro)
ALL(YES, ro, NO)
ALL(NO, wo, YES)
ALL(YES, rw, YES)

READ_BY_SAMPLER(1d, "14ocl_image1d_ro", "i", int, AT1, "f", float, AT1F, 1)
READ_BY_SAMPLER(1da, "20ocl_image1d_array_ro", "Dv2_i", int2, AT1L, "Dv2_f", float2, AT1LF, 1 | LAYERED)
READ_BY_SAMPLER(2d, "14ocl_image2d_ro", "Dv2_i", int2, AT2, "Dv2_f", float2, AT2F, 2)
READ_BY_SAMPLER(2da, "20ocl_image2d_array_ro", "Dv4_i", int4, p, "Dv4_f", float4, p, 2 | LAYERED)
READ_BY_SAMPLER(3d, "14ocl_image3d_ro", "Dv4_i", int4, p, "Dv4_f", float4, p, 3)
DEPTH_BY_SAMPLER(2dd, "20ocl_image2d_depth_ro", "Dv2_i", int2, AT2, "Dv2_f", float2, AT2F, 2)
DEPTH_BY_SAMPLER(2dad, "26ocl_image2d_array_depth_ro", "Dv4_i", int4, p, "Dv4_f", float4, p, 2 | LAYERED)

// A literal sampler is its number.
__attribute__((always_inline, const, nothrow)) uint __translate_sampler_initializer(uint s) { return s; }
#endif
