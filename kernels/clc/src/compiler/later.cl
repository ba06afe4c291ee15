// Built-in functions of OpenCL C 2.0 and later, after those of `builtins.cl`, in the same parts and in others.

#define GENERIC __attribute__((address_space(4)))

#ifdef PART_math
// A second result at an address of generic memory, element by element.
#define ONE(name, R, i) { R x; first.s##i = name(a.s##i, &x); second.s##i = x; }
#define TWO(name, R) ONE(name, R, 0) ONE(name, R, 1)
#define FOUR(name, R) TWO(name, R) ONE(name, R, 2) ONE(name, R, 3)
#define EIGHT(name, R) FOUR(name, R) ONE(name, R, 4) ONE(name, R, 5) ONE(name, R, 6) ONE(name, R, 7)
#define TO_GENERIC_VECTOR(name, T, R, n, each) \
    OVER T##n name(T##n a, GENERIC R##n *to) { T##n first; R##n second; each *to = second; return first; }
#define TO_GENERIC(name, T, R) \
    OVER T name(T a, GENERIC R *to) { R second; T first = name(a, &second); *to = second; return first; } \
    TO_GENERIC_VECTOR(name, T, R, 2, TWO(name, R)) TO_GENERIC_VECTOR(name, T, R, 3, TWO(name, R) ONE(name, R, 2)) \
    TO_GENERIC_VECTOR(name, T, R, 4, FOUR(name, R)) TO_GENERIC_VECTOR(name, T, R, 8, EIGHT(name, R)) \
    TO_GENERIC_VECTOR(name, T, R, 16, EIGHT(name, R) ONE(name, R, 8) ONE(name, R, 9) ONE(name, R, a) ONE(name, R, b) \
        ONE(name, R, c) ONE(name, R, d) ONE(name, R, e) ONE(name, R, f))
TO_GENERIC(fract, float, float) TO_GENERIC(modf, float, float) TO_GENERIC(sincos, float, float) TO_GENERIC(frexp, float, int)
TO_GENERIC(fract, double, double) TO_GENERIC(modf, double, double) TO_GENERIC(sincos, double, double) TO_GENERIC(frexp, double, int)
#endif

#ifdef PART_memory
#define IN_GENERIC(T) LOADS(T, GENERIC) STORES(T, GENERIC)
IN_GENERIC(char) IN_GENERIC(uchar) IN_GENERIC(short) IN_GENERIC(ushort) IN_GENERIC(int) IN_GENERIC(uint) IN_GENERIC(long)
IN_GENERIC(ulong) IN_GENERIC(float) IN_GENERIC(double)
#endif

#ifdef PART_shuffle
// A vector's elements in another order. The text of each is written out: the passes take vectors apart element by element.
#define TAKE(i) a[mask.s##i & (sizeof(a) / sizeof(a[0]) - 1)]
#define TAKE2(i) ((mask.s##i & (sizeof(a) / sizeof(a[0]))) ? b[mask.s##i & (sizeof(a) / sizeof(a[0]) - 1)] : TAKE(i))
#define MAKE2(R, take) (R)(take(0), take(1))
#define MAKE4(R, take) (R)(take(0), take(1), take(2), take(3))
#define MAKE8(R, take) (R)(take(0), take(1), take(2), take(3), take(4), take(5), take(6), take(7))
#define MAKE16(R, take) (R)(take(0), take(1), take(2), take(3), take(4), take(5), take(6), take(7), \
    take(8), take(9), take(a), take(b), take(c), take(d), take(e), take(f))
#define SHUFFLE(T, U, m, n) \
    OVER T##n shuffle(T##m a, U##n mask) { return MAKE##n(T##n, TAKE); } \
    OVER T##n shuffle2(T##m a, T##m b, U##n mask) { return MAKE##n(T##n, TAKE2); }
#define SHUFFLES(T, U, m) SHUFFLE(T, U, m, 2) SHUFFLE(T, U, m, 4) SHUFFLE(T, U, m, 8) SHUFFLE(T, U, m, 16)
#define SHUFFLE_EACH(T, U) SHUFFLES(T, U, 2) SHUFFLES(T, U, 4) SHUFFLES(T, U, 8) SHUFFLES(T, U, 16)
SHUFFLE_EACH(char, uchar) SHUFFLE_EACH(uchar, uchar) SHUFFLE_EACH(short, ushort) SHUFFLE_EACH(ushort, ushort)
SHUFFLE_EACH(int, uint) SHUFFLE_EACH(uint, uint) SHUFFLE_EACH(long, ulong) SHUFFLE_EACH(ulong, ulong)
SHUFFLE_EACH(float, uint) SHUFFLE_EACH(double, ulong) SHUFFLE_EACH(half, ushort)
#endif

#ifdef PART_bits
// Integer dot products, with and without a sum that stays within bounds.
#define DOT(R, A, B, W, low, high) \
    OVER R dot(A##4 a, B##4 b) { \
        return (R)((int)a.x * (int)b.x + (int)a.y * (int)b.y + (int)a.z * (int)b.z + (int)a.w * (int)b.w); } \
    OVER R dot_acc_sat(A##4 a, B##4 b, R c) { W r = (W)dot(a, b) + (W)c; return r < low ? (R)low : r > high ? (R)high : (R)r; }
DOT(uint, uchar, uchar, ulong, 0, 4294967295ul) DOT(int, char, char, long, -2147483648l, 2147483647l)
DOT(int, uchar, char, long, -2147483648l, 2147483647l) DOT(int, char, uchar, long, -2147483648l, 2147483647l)
#define PACKED(name, R, A, B) \
    OVER R dot_4x8packed_##name(uint a, uint b) { return dot(__builtin_astype(a, A##4), __builtin_astype(b, B##4)); } \
    OVER R dot_acc_sat_4x8packed_##name(uint a, uint b, R c) { \
        return dot_acc_sat(__builtin_astype(a, A##4), __builtin_astype(b, B##4), c); }
PACKED(uu_uint, uint, uchar, uchar) PACKED(ss_int, int, char, char) PACKED(us_int, int, uchar, char) PACKED(su_int, int, char, uchar)

// Some bits of a number.
#define FIELD_VECTOR(n, T, S, U) \
    OVER T##n bitfield_insert(T##n a, T##n b, uint from, uint count) { \
        T##n r; for (int k = 0; k < n; k++) r[k] = bitfield_insert((T)a[k], (T)b[k], from, count); return r; } \
    OVER S##n bitfield_extract_signed(T##n a, uint from, uint count) { \
        S##n r; for (int k = 0; k < n; k++) r[k] = bitfield_extract_signed((T)a[k], from, count); return r; } \
    OVER U##n bitfield_extract_unsigned(T##n a, uint from, uint count) { \
        U##n r; for (int k = 0; k < n; k++) r[k] = bitfield_extract_unsigned((T)a[k], from, count); return r; }
#define FIELD(T, S, U, bits) \
    OVER T bitfield_insert(T a, T b, uint from, uint count) { \
        ulong mask = (count < 64 ? (1ul << count) - 1 : ~0ul) << (from & 63); \
        return (T)(((ulong)a & ~mask) | (((ulong)b << (from & 63)) & mask)); } \
    OVER S bitfield_extract_signed(T a, uint from, uint count) { \
        return count == 0 ? (S)0 : (S)((long)((ulong)a << ((64 - from - count) & 63)) >> ((64 - count) & 63)); } \
    OVER U bitfield_extract_unsigned(T a, uint from, uint count) { \
        return count == 0 ? (U)0 : (U)(((ulong)a << ((64 - from - count) & 63)) >> ((64 - count) & 63)); } \
    OVER T bit_reverse(T a) { return (T)(__builtin_elementwise_bitreverse((ulong)(U)a) >> (64 - bits)); } MAP1(bit_reverse, T, T) \
    FIELD_VECTOR(2, T, S, U) FIELD_VECTOR(3, T, S, U) FIELD_VECTOR(4, T, S, U) FIELD_VECTOR(8, T, S, U) FIELD_VECTOR(16, T, S, U)
FIELD(char, char, uchar, 8) FIELD(uchar, char, uchar, 8) FIELD(short, short, ushort, 16) FIELD(ushort, short, ushort, 16)
FIELD(int, int, uint, 32) FIELD(uint, int, uint, 32) FIELD(long, long, ulong, 64) FIELD(ulong, long, ulong, 64)
#endif

#ifdef PART_c11
// Atomic functions of OpenCL C 2.0 and later. The order is the one that is asked for; the scope is always the widest.
#define SCOPE memory_scope_all_svm_devices
// With an order and a scope, with an order alone, and with neither.
#define BY_ORDER(name, R, T, A, S, builtin) \
    OVER R name##_explicit(volatile S A *p, T v, memory_order o, memory_scope s) { return builtin(p, v, o, SCOPE); } \
    OVER R name##_explicit(volatile S A *p, T v, memory_order o) { return builtin(p, v, o, SCOPE); } \
    OVER R name(volatile S A *p, T v) { return builtin(p, v, memory_order_seq_cst, SCOPE); }
#define COMPARE(name, T, A, S, E, builtin) \
    OVER bool name##_explicit(volatile S A *p, E T *e, T v, memory_order yes, memory_order no, memory_scope s) { \
        return builtin(p, e, v, yes, no, SCOPE); } \
    OVER bool name##_explicit(volatile S A *p, E T *e, T v, memory_order yes, memory_order no) { return builtin(p, e, v, yes, no, SCOPE); } \
    OVER bool name(volatile S A *p, E T *e, T v) { return builtin(p, e, v, memory_order_seq_cst, memory_order_seq_cst, SCOPE); }
#define COMPARES(T, A, S, E) \
    COMPARE(atomic_compare_exchange_strong, T, A, S, E, __opencl_atomic_compare_exchange_strong) \
    COMPARE(atomic_compare_exchange_weak, T, A, S, E, __opencl_atomic_compare_exchange_weak)
#define ANY_TYPE(T, A, S) \
    OVER void atomic_init(volatile S A *p, T v) { __opencl_atomic_init(p, v); } \
    BY_ORDER(atomic_store, void, T, A, S, __opencl_atomic_store) \
    BY_ORDER(atomic_exchange, T, T, A, S, __opencl_atomic_exchange) \
    OVER T atomic_load_explicit(volatile S A *p, memory_order o, memory_scope s) { return __opencl_atomic_load(p, o, SCOPE); } \
    OVER T atomic_load_explicit(volatile S A *p, memory_order o) { return __opencl_atomic_load(p, o, SCOPE); } \
    OVER T atomic_load(volatile S A *p) { return __opencl_atomic_load(p, memory_order_seq_cst, SCOPE); } \
    COMPARES(T, A, S, __generic) COMPARES(T, A, S, __global) COMPARES(T, A, S, __local) COMPARES(T, A, S, __private)
#define ADDS(R, T, A, S) \
    BY_ORDER(atomic_fetch_add, R, T, A, S, __opencl_atomic_fetch_add) \
    BY_ORDER(atomic_fetch_sub, R, T, A, S, __opencl_atomic_fetch_sub) \
    BY_ORDER(atomic_fetch_min, R, T, A, S, __opencl_atomic_fetch_min) \
    BY_ORDER(atomic_fetch_max, R, T, A, S, __opencl_atomic_fetch_max)
#define BITWISE(R, T, A, S) \
    BY_ORDER(atomic_fetch_and, R, T, A, S, __opencl_atomic_fetch_and) \
    BY_ORDER(atomic_fetch_or, R, T, A, S, __opencl_atomic_fetch_or) \
    BY_ORDER(atomic_fetch_xor, R, T, A, S, __opencl_atomic_fetch_xor)
#define WHOLE(T, A, S) ANY_TYPE(T, A, S) ADDS(T, T, A, S) BITWISE(T, T, A, S)
// An address takes a difference, and so an operand of the other sign: clang has numbers of 64 bits for all of these.
#define MIXED(S) \
    ADDS(ulong, long, atomic_ulong, S) BITWISE(ulong, long, atomic_ulong, S) \
    ADDS(long, ulong, atomic_long, S) BITWISE(long, ulong, atomic_long, S)
#define FLAG(S) \
    OVER bool atomic_flag_test_and_set_explicit(volatile S atomic_int *p, memory_order o, memory_scope s) { \
        return __opencl_atomic_exchange(p, 1, o, SCOPE) != 0; } \
    OVER bool atomic_flag_test_and_set_explicit(volatile S atomic_int *p, memory_order o) { return __opencl_atomic_exchange(p, 1, o, SCOPE) != 0; } \
    OVER bool atomic_flag_test_and_set(volatile S atomic_int *p) { return __opencl_atomic_exchange(p, 1, memory_order_seq_cst, SCOPE) != 0; } \
    OVER void atomic_flag_clear_explicit(volatile S atomic_int *p, memory_order o, memory_scope s) { __opencl_atomic_store(p, 0, o, SCOPE); } \
    OVER void atomic_flag_clear_explicit(volatile S atomic_int *p, memory_order o) { __opencl_atomic_store(p, 0, o, SCOPE); } \
    OVER void atomic_flag_clear(volatile S atomic_int *p) { __opencl_atomic_store(p, 0, memory_order_seq_cst, SCOPE); }
#define BY_PLACE(S) \
    WHOLE(int, atomic_int, S) WHOLE(uint, atomic_uint, S) WHOLE(long, atomic_long, S) WHOLE(ulong, atomic_ulong, S) \
    ANY_TYPE(float, atomic_float, S) ADDS(float, float, atomic_float, S) ANY_TYPE(double, atomic_double, S) ADDS(double, double, atomic_double, S) FLAG(S) MIXED(S)
BY_PLACE(__generic) BY_PLACE(__global) BY_PLACE(__local)
OVER void atomic_work_item_fence(uint flags, memory_order order, memory_scope scope) {
    switch (order) {
    case memory_order_relaxed: break;
    case memory_order_acquire: FENCE(IS_OF_GROUP(scope), __ATOMIC_ACQUIRE); break;
    case memory_order_release: FENCE(IS_OF_GROUP(scope), __ATOMIC_RELEASE); break;
    case memory_order_acq_rel: FENCE(IS_OF_GROUP(scope), __ATOMIC_ACQ_REL); break;
    default: FENCE(IS_OF_GROUP(scope), __ATOMIC_SEQ_CST);
    }
}
#endif

#ifdef PART_spaces
// What a pointer to generic memory points to.
enum { OF_GLOBAL, OF_LOCAL, OF_PRIVATE };
PURE uint __q_space(const generic void *);
#define ALWAYS __attribute__((always_inline))
ALWAYS __global void *__to_global(generic void *p) { return __q_space(p) == OF_GLOBAL ? (__global void *)p : (__global void *)0; }
ALWAYS __local void *__to_local(generic void *p) { return __q_space(p) == OF_LOCAL ? (__local void *)p : (__local void *)0; }
ALWAYS __private void *__to_private(generic void *p) { return __q_space(p) == OF_PRIVATE ? (__private void *)p : (__private void *)0; }
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
OVER uint get_fence(generic void *p) { return __q_space(p) == OF_LOCAL ? CLK_LOCAL_MEM_FENCE : CLK_GLOBAL_MEM_FENCE; }
OVER uint get_fence(const generic void *p) { return __q_space(p) == OF_LOCAL ? CLK_LOCAL_MEM_FENCE : CLK_GLOBAL_MEM_FENCE; }
#endif

#if defined(PART_collective) || defined(PART_sub_group)
// What collective functions exchange: a slot of 8 bytes for each work-item of the work-group.
PURE ulong *__q_slots(void);
#define OWN (((size_t)__q_lid2() * __q_info(7) + __q_lid1()) * __q_info(6) + __q_lid0())
#define ALL (__q_info(6) * __q_info(7) * __q_info(8))
#define SLOT(T, i) (*(T *)(__q_slots() + (i)))
#define PLUS(a, b) ((a) + (b))
#define LESS(a, b) ((b) < (a) ? (b) : (a))
#define MORE(a, b) ((a) < (b) ? (b) : (a))
#endif

#ifdef PART_collective
// Collective functions of a work-group. Those of a sub-group are in `sub_groups.cl`.
//
// Each work-item writes its own slot, all wait, the first one computes, and all wait again. The result is written by one
// work-item after a barrier, and read after the next: so those who read it are through before another is written.
PURE ulong *__q_result(void);
#define RESULT(T) (*(T *)__q_result())

#define SHARED(prefix, T) \
    OVER T prefix##broadcast(T x, size_t from) { \
        __q_barrier(); if (OWN == from) RESULT(T) = x; __q_barrier(); return RESULT(T); }
#define REDUCTION(prefix, T, name, start, with) \
    OVER T prefix##reduce_##name(T x) { \
        SLOT(T, OWN) = x; __q_barrier(); \
        if (OWN == 0) { T r = SLOT(T, 0); for (size_t i = 1; i < ALL; i++) r = with(r, SLOT(T, i)); RESULT(T) = r; } \
        __q_barrier(); return RESULT(T); } \
    OVER T prefix##scan_inclusive_##name(T x) { \
        SLOT(T, OWN) = x; __q_barrier(); \
        if (OWN == 0) { T r = SLOT(T, 0); for (size_t i = 1; i < ALL; i++) { r = with(r, SLOT(T, i)); SLOT(T, i) = r; } } \
        __q_barrier(); return SLOT(T, OWN); } \
    OVER T prefix##scan_exclusive_##name(T x) { \
        SLOT(T, OWN) = x; __q_barrier(); \
        if (OWN == 0) { T r = start; for (size_t i = 0; i < ALL; i++) { T next = with(r, SLOT(T, i)); SLOT(T, i) = r; r = next; } } \
        __q_barrier(); return SLOT(T, OWN); }
#define REDUCTIONS(prefix, T, low, high) \
    REDUCTION(prefix, T, add, (T)0, PLUS) REDUCTION(prefix, T, min, high, LESS) REDUCTION(prefix, T, max, low, MORE)
#define TYPES(prefix) \
    REDUCTIONS(prefix, int, (-2147483647 - 1), 2147483647) REDUCTIONS(prefix, uint, 0u, 4294967295u) \
    REDUCTIONS(prefix, long, (-9223372036854775807l - 1), 9223372036854775807l) REDUCTIONS(prefix, ulong, 0ul, 18446744073709551615ul) \
    REDUCTIONS(prefix, half, -(half)__builtin_inff(), (half)__builtin_inff()) REDUCTIONS(prefix, float, -(float)__builtin_inf(), (float)__builtin_inf()) REDUCTIONS(prefix, double, -__builtin_inf(), __builtin_inf())
#define VOTES(prefix) \
    OVER int prefix##any(int x) { return prefix##reduce_max((uint)(x != 0)); } \
    OVER int prefix##all(int x) { return prefix##reduce_min((uint)(x != 0)); }
TYPES(work_group_) VOTES(work_group_)
#define AT(T) SHARED(work_group_, T) \
    OVER T work_group_broadcast(T x, size_t i, size_t j) { return work_group_broadcast(x, j * __q_info(6) + i); } \
    OVER T work_group_broadcast(T x, size_t i, size_t j, size_t k) { return work_group_broadcast(x, (k * __q_info(7) + j) * __q_info(6) + i); }
AT(int) AT(uint) AT(long) AT(ulong) AT(half) AT(float) AT(double)
#endif
