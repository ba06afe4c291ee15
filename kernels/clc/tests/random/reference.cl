// The language's functions as random programs use them, each written anew from the standard's words: the programs are compiled
// with this text, for the machine itself and without optimisation, and `fibres.c` runs each work-item on a stack of its own.

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef ulong size_t;
#define VECTORS(T) \
    typedef T T##2 __attribute__((ext_vector_type(2))); typedef T T##3 __attribute__((ext_vector_type(3))); \
    typedef T T##4 __attribute__((ext_vector_type(4))); typedef T T##8 __attribute__((ext_vector_type(8))); \
    typedef T T##16 __attribute__((ext_vector_type(16)));
VECTORS(char) VECTORS(uchar) VECTORS(short) VECTORS(ushort) VECTORS(int) VECTORS(uint) VECTORS(long) VECTORS(ulong)
VECTORS(float) VECTORS(double)
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
VECTORS(half)
#define OVER static inline __attribute__((overloadable, unused))
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2

size_t get_global_id(uint axis);
size_t get_local_id(uint axis);
size_t get_group_id(uint axis);
size_t get_local_size(uint axis);
size_t get_num_groups(uint axis);
size_t get_global_size(uint axis);
size_t get_local_linear_id(void);
void barrier(uint fences);
__private ulong *reference_slots(void);

// Numbers of work-items of a group, and of a sub-group, which is the whole of it.
#define ITEMS (get_local_size(0) * get_local_size(1) * get_local_size(2))
#define OWN get_local_linear_id()
#define get_sub_group_local_id() ((uint)OWN)
#define get_sub_group_size() ((uint)ITEMS)
#define get_sub_group_id() 0u
#define get_num_sub_groups() 1u

// A function of numbers, for vectors, element by element.
#define ONE(n, f, R, A) OVER R##n f(A##n a) { R##n r; for (int i = 0; i < n; i++) r[i] = f((A)a[i]); return r; }
#define TWO(n, f, R, A, B) OVER R##n f(A##n a, B##n b) { R##n r; for (int i = 0; i < n; i++) r[i] = f((A)a[i], (B)b[i]); return r; }
#define THREE(n, f, R, A, B, C) OVER R##n f(A##n a, B##n b, C##n c) { \
    R##n r; for (int i = 0; i < n; i++) r[i] = f((A)a[i], (B)b[i], (C)c[i]); return r; }
#define EACH(what, ...) what(2, __VA_ARGS__) what(3, __VA_ARGS__) what(4, __VA_ARGS__) what(8, __VA_ARGS__) what(16, __VA_ARGS__)

// All of an integer type: itself, its signed and unsigned kin, its bits, and its least and greatest number.
#define INTEGER(T, S, U, BITS, LEAST, GREATEST) \
    OVER T min(T a, T b) { return a < b ? a : b; } EACH(TWO, min, T, T, T) \
    OVER T max(T a, T b) { return a > b ? a : b; } EACH(TWO, max, T, T, T) \
    OVER U abs(T a) { return a < 0 ? (U)(0 - (U)a) : (U)a; } EACH(ONE, abs, U, T) \
    OVER U abs_diff(T a, T b) { return a > b ? (U)((U)a - (U)b) : (U)((U)b - (U)a); } EACH(TWO, abs_diff, U, T, T) \
    OVER T add_sat(T a, T b) { return b > 0 ? (a > GREATEST - b ? GREATEST : a + b) : (a < LEAST - b ? LEAST : a + b); } \
    EACH(TWO, add_sat, T, T, T) \
    OVER T sub_sat(T a, T b) { return b > 0 ? (a < LEAST + b ? LEAST : a - b) : (a > GREATEST + b ? GREATEST : a - b); } \
    EACH(TWO, sub_sat, T, T, T) \
    OVER T hadd(T a, T b) { return (T)((a >> 1) + (b >> 1) + (a & b & 1)); } EACH(TWO, hadd, T, T, T) \
    OVER T rhadd(T a, T b) { return (T)((a >> 1) + (b >> 1) + ((a | b) & 1)); } EACH(TWO, rhadd, T, T, T) \
    OVER T rotate(T a, T b) { uint n = (uint)b & (BITS - 1); \
        return n == 0 ? a : (T)(U)(((ulong)(U)a << n) | ((ulong)(U)a >> (BITS - n))); } EACH(TWO, rotate, T, T, T) \
    OVER T popcount(T a) { T n = 0; for (int i = 0; i < BITS; i++) n += (T)((U)a >> i & 1); return n; } EACH(ONE, popcount, T, T) \
    OVER T clz(T a) { T n = 0; for (int i = BITS - 1; i >= 0 && !((U)a >> i & 1); i--) n++; return n; } EACH(ONE, clz, T, T) \
    OVER T bitselect(T a, T b, T c) { return (T)((a & ~c) | (b & c)); } EACH(THREE, bitselect, T, T, T, T)
INTEGER(char, char, uchar, 8, -128, 127)
INTEGER(uchar, char, uchar, 8, 0, 255)
INTEGER(short, short, ushort, 16, -32768, 32767)
INTEGER(ushort, short, ushort, 16, 0, 65535)
INTEGER(int, int, uint, 32, (-2147483647 - 1), 2147483647)
INTEGER(uint, int, uint, 32, 0u, 4294967295u)
INTEGER(long, long, ulong, 64, (-9223372036854775807l - 1), 9223372036854775807l)
INTEGER(ulong, long, ulong, 64, 0ul, 18446744073709551615ul)

// The upper half of a product.
#define UPPER(T, WIDE, BITS) OVER T mul_hi(T a, T b) { return (T)(((WIDE)a * (WIDE)b) >> BITS); } EACH(TWO, mul_hi, T, T, T)
UPPER(char, int, 8) UPPER(uchar, int, 8) UPPER(short, int, 16) UPPER(ushort, uint, 16) UPPER(int, long, 32) UPPER(uint, ulong, 32)

// What a vector's comparison chooses is by the uppermost bit; what a number's does is by any.
#define CHOICE(n, T, C) OVER T##n select(T##n a, T##n b, C##n c) { T##n r; for (int i = 0; i < n; i++) r[i] = c[i] < 0 ? b[i] : a[i]; return r; }
#define CHOICES(T, C) OVER T select(T a, T b, C c) { return c ? b : a; } EACH(CHOICE, T, C)
CHOICES(char, char) CHOICES(uchar, char) CHOICES(short, short) CHOICES(ushort, short) CHOICES(int, int) CHOICES(uint, int)
CHOICES(long, long) CHOICES(ulong, long) CHOICES(float, int) CHOICES(double, long) CHOICES(half, short)
#define VOTE(n, C) \
    OVER int any(C##n c) { int r = 0; for (int i = 0; i < n; i++) r |= c[i] < 0; return r; } \
    OVER int all(C##n c) { int r = 1; for (int i = 0; i < n; i++) r &= c[i] < 0; return r; }
EACH(VOTE, char) EACH(VOTE, short) EACH(VOTE, int) EACH(VOTE, long)

#define EXACT(T, f) \
    OVER T fabs(T a) { return __builtin_fabs##f(a); } EACH(ONE, fabs, T, T) \
    OVER T floor(T a) { return __builtin_floor##f(a); } EACH(ONE, floor, T, T) \
    OVER T ceil(T a) { return __builtin_ceil##f(a); } EACH(ONE, ceil, T, T) \
    OVER T trunc(T a) { return __builtin_trunc##f(a); } EACH(ONE, trunc, T, T) \
    OVER T rint(T a) { return __builtin_rint##f(a); } EACH(ONE, rint, T, T) \
    OVER T copysign(T a, T b) { return __builtin_copysign##f(a, b); } EACH(TWO, copysign, T, T, T) \
    OVER T fma(T a, T b, T c) { return __builtin_fma##f(a, b, c); } EACH(THREE, fma, T, T, T, T)
EXACT(float, f) EXACT(double, )
// Each has a result that is a `half`, or is rounded once: what `double` loses of a product and a sum does not matter.
#define OF_HALF1(name) OVER half name(half a) { return (half)name((double)a); } EACH(ONE, name, half, half)
OF_HALF1(fabs) OF_HALF1(floor) OF_HALF1(ceil) OF_HALF1(trunc) OF_HALF1(rint)
OVER half copysign(half a, half b) { return (half)copysign((double)a, (double)b); } EACH(TWO, copysign, half, half, half)
OVER half fma(half a, half b, half c) { return (half)((double)a * (double)b + (double)c); } EACH(THREE, fma, half, half, half, half)

// Conversions: plain ones as C has them, and those that stay within the type's bounds.
#define CONVERT(n, R, A) OVER R##n convert_##R##n(A##n a) { R##n r; for (int i = 0; i < n; i++) r[i] = (R)a[i]; return r; }
#define CONVERT_SAT(n, R, A) OVER R##n convert_##R##n##_sat(A##n a) { R##n r; for (int i = 0; i < n; i++) r[i] = convert_##R##_sat((A)a[i]); return r; }
#define PLAIN(R, A) OVER R convert_##R(A a) { return (R)a; } EACH(CONVERT, R, A)
#define WITHIN(R, A, LEAST, GREATEST) OVER R convert_##R##_sat(A a) { \
    if ((A)-1 > 0) return (ulong)a > (ulong)GREATEST ? GREATEST : (R)a; \
    if (a < 0 && (R)-1 > 0) return 0; \
    return a < 0 ? ((long)a < (long)LEAST ? LEAST : (R)a) : ((ulong)a > (ulong)GREATEST ? GREATEST : (R)a); } \
    EACH(CONVERT_SAT, R, A)
// `BEYOND` is the least number above all of the type that a floating-point number has.
#define WITHIN_OF_REAL(R, A, LEAST, GREATEST, BEYOND) OVER R convert_##R##_sat(A a) { \
    return a != a ? 0 : a >= (A)BEYOND ? GREATEST : a <= (A)LEAST ? LEAST : (R)a; } EACH(CONVERT_SAT, R, A)
#define FROM_INTEGERS(what, R, ...) what(R, char, ##__VA_ARGS__) what(R, uchar, ##__VA_ARGS__) what(R, short, ##__VA_ARGS__) what(R, ushort, ##__VA_ARGS__) \
    what(R, int, ##__VA_ARGS__) what(R, uint, ##__VA_ARGS__) what(R, long, ##__VA_ARGS__) what(R, ulong, ##__VA_ARGS__)
#define TO_INTEGER(R, LEAST, GREATEST, BEYOND) \
    FROM_INTEGERS(PLAIN, R) FROM_INTEGERS(WITHIN, R, LEAST, GREATEST) \
    WITHIN_OF_REAL(R, half, LEAST, GREATEST, BEYOND) WITHIN_OF_REAL(R, float, LEAST, GREATEST, BEYOND) WITHIN_OF_REAL(R, double, LEAST, GREATEST, BEYOND)
TO_INTEGER(char, -128, 127, 128) TO_INTEGER(uchar, 0, 255, 256) TO_INTEGER(short, -32768, 32767, 32768) TO_INTEGER(ushort, 0, 65535, 65536)
TO_INTEGER(int, (-2147483647 - 1), 2147483647, 2147483648.0) TO_INTEGER(uint, 0u, 4294967295u, 4294967296.0)
TO_INTEGER(long, (-9223372036854775807l - 1), 9223372036854775807l, 9223372036854775808.0)
TO_INTEGER(ulong, 0ul, 18446744073709551615ul, 18446744073709551616.0)
FROM_INTEGERS(PLAIN, half) PLAIN(half, half) PLAIN(half, float) PLAIN(half, double) PLAIN(float, half) PLAIN(double, half)
FROM_INTEGERS(PLAIN, float) PLAIN(float, float) PLAIN(float, double)
FROM_INTEGERS(PLAIN, double) PLAIN(double, float) PLAIN(double, double)
#define as_int(x) __builtin_astype(x, int)
#define as_uint(x) __builtin_astype(x, uint)
#define as_ulong(x) __builtin_astype(x, ulong)

#define MEMORY_OF(n, T, S) \
    OVER T##n vload##n(size_t at, const S T *p) { T##n r; for (int i = 0; i < n; i++) r[i] = p[at * n + i]; return r; } \
    OVER void vstore##n(T##n v, size_t at, S T *p) { for (int i = 0; i < n; i++) p[at * n + i] = v[i]; }
#define MEMORY(T) EACH(MEMORY_OF, T, __global) EACH(MEMORY_OF, T, __local) EACH(MEMORY_OF, T, __private)
MEMORY(char) MEMORY(uchar) MEMORY(short) MEMORY(ushort) MEMORY(int) MEMORY(uint) MEMORY(long) MEMORY(ulong) MEMORY(float) MEMORY(double) MEMORY(half)

#define ATOMIC(name, S, T, how) OVER T atomic_##name(volatile S T *p, T v) { T old = *p; *p = how; return old; }
#define ATOMICS(S, T) ATOMIC(add, S, T, (T)((uint)old + (uint)v)) ATOMIC(sub, S, T, (T)((uint)old - (uint)v)) ATOMIC(xor, S, T, old ^ v) \
    ATOMIC(or, S, T, old | v) ATOMIC(and, S, T, old & v) ATOMIC(min, S, T, old < v ? old : v) ATOMIC(max, S, T, old > v ? old : v)
ATOMICS(__global, uint) ATOMICS(__local, uint) ATOMICS(__global, int) ATOMICS(__local, int)

// Collective functions. All wait until each has said what it has, and again until each has looked at it.
#define SLOT(T, i) (*(__private T *)(reference_slots() + (i)))
#define PLUS(a, b) ((a) + (b))
#define LESS(a, b) ((b) < (a) ? (b) : (a))
#define MORE(a, b) ((a) < (b) ? (b) : (a))
#define REDUCTION(prefix, T, name, start, with) \
    OVER T prefix##_reduce_##name(T x) { SLOT(T, OWN) = x; barrier(0); T r = SLOT(T, 0); \
        for (size_t i = 1; i < ITEMS; i++) { r = with(r, SLOT(T, i)); } barrier(0); return r; } \
    OVER T prefix##_scan_inclusive_##name(T x) { SLOT(T, OWN) = x; barrier(0); T r = SLOT(T, 0); \
        for (size_t i = 1; i <= OWN; i++) { r = with(r, SLOT(T, i)); } barrier(0); return r; } \
    OVER T prefix##_scan_exclusive_##name(T x) { SLOT(T, OWN) = x; barrier(0); T r = start; \
        for (size_t i = 0; i < OWN; i++) { r = with(r, SLOT(T, i)); } barrier(0); return r; }
#define COLLECTIVE(prefix, T, S, LEAST, GREATEST) \
    REDUCTION(prefix, T, add, (T)0, PLUS) REDUCTION(prefix, T, min, GREATEST, LESS) REDUCTION(prefix, T, max, LEAST, MORE)
#define GIVEN(prefix, T) OVER T prefix##_broadcast(T x, size_t from) { SLOT(T, OWN) = x; barrier(0); T r = SLOT(T, from); barrier(0); return r; }
#define OF_GROUP(prefix) \
    COLLECTIVE(prefix, uint, uint, 0u, 4294967295u) COLLECTIVE(prefix, ulong, ulong, 0ul, 18446744073709551615ul) \
    COLLECTIVE(prefix, int, uint, (-2147483647 - 1), 2147483647) COLLECTIVE(prefix, long, ulong, (-9223372036854775807l - 1), 9223372036854775807l) \
    GIVEN(prefix, uint) GIVEN(prefix, ulong) GIVEN(prefix, int) GIVEN(prefix, long) GIVEN(prefix, half) GIVEN(prefix, float) GIVEN(prefix, double) \
    OVER int prefix##_any(int x) { return prefix##_reduce_max((uint)(x != 0)) != 0; } \
    OVER int prefix##_all(int x) { return prefix##_reduce_min((uint)(x != 0)) != 0; }
OF_GROUP(work_group) OF_GROUP(sub_group)

#define GIVEN_BY(T, name, B, from) OVER T sub_group_##name(T x, B by) { \
    SLOT(T, OWN) = x; barrier(0); long i = from; T r = i >= 0 && i < (long)ITEMS ? SLOT(T, i) : x; barrier(0); return r; }
#define SHUFFLES(T) \
    GIVEN_BY(T, shuffle, uint, by) GIVEN_BY(T, shuffle_xor, uint, (long)((uint)OWN ^ by)) GIVEN_BY(T, shuffle_up, uint, (long)OWN - (long)by) \
    GIVEN_BY(T, shuffle_down, uint, (long)OWN + (long)by) GIVEN_BY(T, rotate, int, (((long)OWN + by) % (long)ITEMS + (long)ITEMS) % (long)ITEMS)
SHUFFLES(char) SHUFFLES(uchar) SHUFFLES(short) SHUFFLES(ushort) SHUFFLES(int) SHUFFLES(uint) SHUFFLES(long) SHUFFLES(ulong)
SHUFFLES(half) SHUFFLES(float) SHUFFLES(double)

OVER uint4 sub_group_ballot(int x) {
    SLOT(uint, OWN) = x != 0; barrier(0);
    uint4 r = 0;
    for (size_t i = 0; i < ITEMS; i++) r[i / 32] |= SLOT(uint, i) << i % 32;
    barrier(0);
    return r;
}
// What some work-items make of their numbers: all come here, and each says whether it is one of them.
#define OF_BITS(i) (here[(i) / 32] >> (i) % 32 & 1)
#define SOME_OF(T, name, start, with) \
    OVER T some_##name(int is, T x, int end, int by_all) { \
        uint4 here = sub_group_ballot(is); \
        SLOT(T, OWN) = x; barrier(0); \
        T r = start; int any = 0; \
        for (size_t i = 0; i < (by_all ? ITEMS : OWN + end); i++) if (OF_BITS(i)) { r = any ? (T)with(r, SLOT(T, i)) : SLOT(T, i); any = 1; } \
        barrier(0); return r; } \
    OVER T some_reduce_##name(int is, T x) { return some_##name(is, x, 0, 1); } \
    OVER T some_scan_inclusive_##name(int is, T x) { return some_##name(is, x, 1, 0); } \
    OVER T some_scan_exclusive_##name(int is, T x) { return some_##name(is, x, 0, 0); }
#define WIDE_TIMES(a, b) ((ulong)(a) * (ulong)(b))
#define BOTH(a, b) ((a) & (b))
#define EITHER(a, b) ((a) | (b))
#define ONE_OF(a, b) ((a) ^ (b))
#define SOMES(T) \
    SOME_OF(T, add, (T)0, PLUS) SOME_OF(T, mul, (T)1, WIDE_TIMES) SOME_OF(T, min, (T)~(T)0, LESS) SOME_OF(T, max, (T)0, MORE) \
    SOME_OF(T, and, (T)~(T)0, BOTH) SOME_OF(T, or, (T)0, EITHER) SOME_OF(T, xor, (T)0, ONE_OF)
SOMES(uchar) SOMES(ushort) SOMES(uint) SOMES(ulong)
#define SOME(condition, result, how, type, value) { int is_ = (condition); type of_ = some_##how(is_, (type)(value)); if (is_) result = of_; }
