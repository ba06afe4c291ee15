// Functions of sub-groups, after those of `later.cl`. A sub-group is the whole work-group, or as many work-items as `__q_width`
// says, by their linear number. `__q_parts` is the same number. A kernel that calls `__q_width`, too, exchanges values in its
// sub-groups, and a kernel that only calls `__q_parts` does not.
//
// Work-items *meet* where they call such a function: all of the work-group, or, where they are apart, those that came there by the
// same call. Each writes its own slot, they meet, the first one of each sub-group computes, and they meet again. A result lies
// where the first one has it. It is written after they have met, and read after they meet again: so all have read the one before.

#ifdef PART_sub_group
// Whom a work-item meets. On processors the passes find it out. On GPUs it is told: those that are here by the same call, those that
// it met last, or the whole sub-group.
enum { HERE_NOW, AGAIN, THE_WHOLE };
__attribute__((convergent)) void __q_meet(uint whom);
PURE bool __q_whole(void);
PURE uint __q_width(void);
PURE uint __q_parts(void);
// True if work-items may be apart; then they are together that have the same number here.
PURE bool __q_apart(void);
PURE const uint *__q_states(void);
// As many work-items as a ballot has bits.
PURE uint __q_most(void);
// Two for each work-item.
PURE ulong *__q_results(void);
#define WIDTH ((size_t)__q_parts())
#define LANE (__q_whole() ? OWN : OWN % WIDTH)
#define BASE (__q_whole() ? 0 : OWN - OWN % WIDTH)
#define LIMIT (__q_whole() || ALL < BASE + WIDTH ? ALL : BASE + WIDTH)
#define HERE(i) (!__q_apart() || __q_states()[i] == __q_states()[OWN])
#define FOUND(T, i) (*(T *)(__q_results() + 2 * (i)))
// Whole numbers go around, also those that C multiplies as larger ones.
#define GO_AROUND(T, U) OVER T __q_times(T a, T b) { return (T)((U)a * (U)b); }
GO_AROUND(char, uint) GO_AROUND(uchar, uint) GO_AROUND(short, uint) GO_AROUND(ushort, uint) GO_AROUND(int, uint) GO_AROUND(uint, uint)
GO_AROUND(long, ulong) GO_AROUND(ulong, ulong) GO_AROUND(half, half) GO_AROUND(float, float) GO_AROUND(double, double)
#define TIMES(a, b) __q_times(a, b)
#define BITS_OF_BOTH(a, b) ((a) & (b))
#define BITS_OF_EITHER(a, b) ((a) | (b))
#define BITS_OF_ONE(a, b) ((a) ^ (b))
#define BOTH(a, b) ((a) != 0 && (b) != 0)
#define EITHER(a, b) ((a) != 0 || (b) != 0)
#define ONE_OF(a, b) (((a) != 0) != ((b) != 0))

OVER uint get_sub_group_size(void) { return (uint)(LIMIT - BASE); }
#define ENQUEUED (__q_info(17) * __q_info(18) * __q_info(19))
OVER uint get_max_sub_group_size(void) { return (uint)(__q_whole() || ENQUEUED < WIDTH ? ENQUEUED : WIDTH); }
OVER uint get_num_sub_groups(void) { return __q_whole() ? 1 : (uint)((ALL + WIDTH - 1) / WIDTH); }
OVER uint get_enqueued_num_sub_groups(void) { return __q_whole() ? 1 : (uint)((ENQUEUED + WIDTH - 1) / WIDTH); }
OVER uint get_sub_group_id(void) { return __q_whole() ? 0 : (uint)(OWN / WIDTH); }
OVER uint get_sub_group_local_id(void) { return (uint)LANE; }
OVER void sub_group_barrier(uint flags) { __q_meet(THE_WHOLE); }
OVER void sub_group_barrier(uint flags, memory_scope scope) { __q_meet(THE_WHOLE); }

// The functions from here on exchange values.
#undef WIDTH
#define WIDTH ((size_t)__q_width())
OVER size_t __q_first(void) { size_t i = BASE; while (!HERE(i)) i++; return i; }

// Reductions and scans over the work-items that are here; a function of each name.
#define FOLD(whom, reduced, inclusive, exclusive, T, start, with) \
    OVER T reduced(T x) { \
        SLOT(T, OWN) = x; __q_meet(whom); \
        size_t first = __q_first(); \
        if (OWN == first) { \
            T r = SLOT(T, first); for (size_t i = first + 1; i < LIMIT; i++) if (HERE(i)) r = with(r, SLOT(T, i)); FOUND(T, first) = r; } \
        __q_meet(AGAIN); return FOUND(T, first); } \
    OVER T inclusive(T x) { \
        SLOT(T, OWN) = x; __q_meet(whom); \
        size_t first = __q_first(); \
        if (OWN == first) { \
            T r = SLOT(T, first); \
            for (size_t i = first + 1; i < LIMIT; i++) if (HERE(i)) { r = with(r, SLOT(T, i)); SLOT(T, i) = r; } } \
        __q_meet(AGAIN); return SLOT(T, OWN); } \
    OVER T exclusive(T x) { \
        SLOT(T, OWN) = x; __q_meet(whom); \
        size_t first = __q_first(); \
        if (OWN == first) { \
            T r = SLOT(T, first); SLOT(T, first) = start; \
            for (size_t i = first + 1; i < LIMIT; i++) if (HERE(i)) { T next = with(r, SLOT(T, i)); SLOT(T, i) = r; r = next; } } \
        __q_meet(AGAIN); return SLOT(T, OWN); }
// The same of clusters.
#define CLUSTER(T, name, with) \
    OVER T sub_group_clustered_reduce_##name(T x, uint size) { \
        SLOT(T, OWN) = x; __q_meet(HERE_NOW); \
        size_t from = BASE + (LANE & ~(size_t)(size - 1)), to = from + size < LIMIT ? from + size : LIMIT; \
        T r = x; bool any = false; \
        for (size_t i = from; i < to; i++) if (HERE(i)) { r = any ? (T)with(r, SLOT(T, i)) : SLOT(T, i); any = true; } \
        __q_meet(AGAIN); return r; }
#define EACH_FOLD(T, name, start, with) \
    FOLD(HERE_NOW, sub_group_non_uniform_reduce_##name, sub_group_non_uniform_scan_inclusive_##name, sub_group_non_uniform_scan_exclusive_##name, T, start, with) \
    CLUSTER(T, name, with)
#define FOLDS(T, low, high) \
    FOLD(THE_WHOLE, sub_group_reduce_add, sub_group_scan_inclusive_add, sub_group_scan_exclusive_add, T, (T)0, PLUS) \
    FOLD(THE_WHOLE, sub_group_reduce_min, sub_group_scan_inclusive_min, sub_group_scan_exclusive_min, T, high, LESS) \
    FOLD(THE_WHOLE, sub_group_reduce_max, sub_group_scan_inclusive_max, sub_group_scan_exclusive_max, T, low, MORE) \
    EACH_FOLD(T, add, (T)0, PLUS) EACH_FOLD(T, mul, (T)1, TIMES) EACH_FOLD(T, min, high, LESS) EACH_FOLD(T, max, low, MORE)
#define WHOLE_FOLDS(T, low, high) \
    FOLDS(T, low, high) \
    EACH_FOLD(T, and, (T)~(T)0, BITS_OF_BOTH) EACH_FOLD(T, or, (T)0, BITS_OF_EITHER) EACH_FOLD(T, xor, (T)0, BITS_OF_ONE)
WHOLE_FOLDS(char, -128, 127) WHOLE_FOLDS(uchar, 0, 255) WHOLE_FOLDS(short, -32768, 32767) WHOLE_FOLDS(ushort, 0, 65535)
WHOLE_FOLDS(int, (-2147483647 - 1), 2147483647) WHOLE_FOLDS(uint, 0u, 4294967295u)
WHOLE_FOLDS(long, (-9223372036854775807l - 1), 9223372036854775807l) WHOLE_FOLDS(ulong, 0ul, 18446744073709551615ul)
FOLDS(half, -(half)__builtin_inff(), (half)__builtin_inff())
FOLDS(float, -(float)__builtin_inf(), (float)__builtin_inf()) FOLDS(double, -__builtin_inf(), __builtin_inf())
// Of a single one, a number that is not 0 is 1 as well.
#define LOGICAL(name, start, with) \
    FOLD(HERE_NOW, __q_reduce_##name, __q_inclusive_##name, __q_exclusive_##name, int, start, with) \
    OVER int sub_group_non_uniform_reduce_logical_##name(int x) { return __q_reduce_##name(x != 0); } \
    OVER int sub_group_non_uniform_scan_inclusive_logical_##name(int x) { return __q_inclusive_##name(x != 0); } \
    OVER int sub_group_non_uniform_scan_exclusive_logical_##name(int x) { return __q_exclusive_##name(x != 0); } \
    CLUSTER(int, of_truth_##name, with) \
    OVER int sub_group_clustered_reduce_logical_##name(int x, uint size) { return sub_group_clustered_reduce_of_truth_##name(x != 0, size); }
LOGICAL(and, 1, BOTH) LOGICAL(or, 0, EITHER) LOGICAL(xor, 0, ONE_OF)

// Votes.
OVER int sub_group_any(int x) { return __q_reduce_or(x != 0); }
OVER int sub_group_all(int x) { return __q_reduce_and(x != 0); }
OVER int sub_group_non_uniform_any(int x) { return __q_reduce_or(x != 0); }
OVER int sub_group_non_uniform_all(int x) { return __q_reduce_and(x != 0); }
OVER int sub_group_elect(void) { __q_meet(HERE_NOW); return OWN == __q_first(); }
#define ALL_EQUAL(T) \
    OVER int sub_group_non_uniform_all_equal(T x) { \
        SLOT(T, OWN) = x; __q_meet(HERE_NOW); \
        int r = SLOT(T, __q_first()) == x; \
        __q_meet(AGAIN); return __q_reduce_and(r); }

// What another work-item has: it is looked at between two meetings. Where there is none of that number, each has its own.
#define FROM(T, name, B, from) \
    OVER T sub_group_##name(T x, B by) { \
        SLOT(T, OWN) = x; __q_meet(HERE_NOW); size_t i = from; T r = SLOT(T, i < LIMIT - BASE ? BASE + i : OWN); __q_meet(AGAIN); return r; }
#define FIRST_HAS(T) \
    OVER T sub_group_broadcast_first(T x) { SLOT(T, OWN) = x; __q_meet(HERE_NOW); T r = SLOT(T, __q_first()); __q_meet(AGAIN); return r; }
#define TURNED(T) \
    OVER T sub_group_clustered_rotate(T x, int by, uint size) { \
        SLOT(T, OWN) = x; __q_meet(HERE_NOW); size_t i = (LANE & ~(size_t)(size - 1)) | ((LANE + (size_t)by) & (size - 1)); \
        T r = SLOT(T, i < LIMIT - BASE ? BASE + i : OWN); __q_meet(AGAIN); return r; }
// A rotation goes around the largest sub-group, also where this one is smaller.
#define MOST ((long)get_max_sub_group_size())
#define EXCHANGES(T) \
    ALL_EQUAL(T) FIRST_HAS(T) TURNED(T) \
    FROM(T, broadcast, uint, by) MAP_TAKEN(sub_group_broadcast, T) \
    FROM(T, non_uniform_broadcast, uint, by) MAP_TAKEN(sub_group_non_uniform_broadcast, T) \
    FROM(T, shuffle, uint, by) FROM(T, shuffle_xor, uint, LANE ^ by) FROM(T, shuffle_up, uint, LANE - by) FROM(T, shuffle_down, uint, LANE + by) \
    FROM(T, rotate, int, ((long)LANE + by % MOST + MOST) % MOST)
#define MAP_TAKEN(name, T) \
    OVER T##2 name(T##2 a, uint i) { return (T##2)(name(a.x, i), name(a.y, i)); } \
    OVER T##3 name(T##3 a, uint i) { return (T##3)(name(a.x, i), name(a.y, i), name(a.z, i)); } \
    OVER T##4 name(T##4 a, uint i) { return (T##4)(name(a.lo, i), name(a.hi, i)); } \
    OVER T##8 name(T##8 a, uint i) { return (T##8)(name(a.lo, i), name(a.hi, i)); } \
    OVER T##16 name(T##16 a, uint i) { return (T##16)(name(a.lo, i), name(a.hi, i)); }
EXCHANGES(char) EXCHANGES(uchar) EXCHANGES(short) EXCHANGES(ushort) EXCHANGES(int) EXCHANGES(uint) EXCHANGES(long) EXCHANGES(ulong)
EXCHANGES(half) EXCHANGES(float) EXCHANGES(double)

// Ballots: a bit for each work-item of the sub-group.
#define LOW(v) ((v).x | (ulong)(v).y << 32)
#define HIGH(v) ((v).z | (ulong)(v).w << 32)
#define MASK(low, high) ((uint4)((uint)(low), (uint)((low) >> 32), (uint)(high), (uint)((high) >> 32)))
OVER uint4 sub_group_ballot(int x) {
    SLOT(uint, OWN) = x != 0; __q_meet(HERE_NOW);
    size_t first = __q_first(), base = BASE, end = LIMIT < base + __q_most() ? LIMIT : base + __q_most();
    if (OWN == first) {
        ulong low = 0, high = 0;
        for (size_t i = base; i < end; i++) {
            ulong bit = HERE(i) ? SLOT(uint, i) : 0;
            if (i - base < 64) low |= bit << (i - base); else high |= bit << (i - base - 64);
        }
        FOUND(ulong, first) = low;
        __q_results()[2 * first + 1] = high;
    }
    __q_meet(AGAIN);
    return MASK(FOUND(ulong, first), __q_results()[2 * first + 1]);
}
// The bits of numbers below one.
OVER uint4 __q_below(uint n) {
    ulong low = n < 64 ? (1ul << n) - 1 : ~0ul, high = n <= 64 ? 0 : n < 128 ? (1ul << (n - 64)) - 1 : ~0ul;
    return MASK(low, high);
}
OVER uint __q_most_here(void) { uint most = get_max_sub_group_size(); return most < __q_most() ? most : __q_most(); }
OVER uint4 __q_within(uint4 v) { return v & __q_below(__q_most_here()); }
OVER uint __q_bits(uint4 v) { return (uint)(__builtin_popcountl(LOW(v)) + __builtin_popcountl(HIGH(v))); }
OVER int sub_group_ballot_bit_extract(uint4 v, uint i) { return (int)((i < 64 ? LOW(v) >> (i & 63) : HIGH(v) >> (i & 63)) & 1); }
OVER int sub_group_inverse_ballot(uint4 v) { return sub_group_ballot_bit_extract(v, (uint)LANE % __q_most()); }
OVER uint sub_group_ballot_bit_count(uint4 v) { return __q_bits(__q_within(v)); }
OVER uint sub_group_ballot_inclusive_scan(uint4 v) { return __q_bits(v & __q_below((uint)LANE % __q_most() + 1)); }
OVER uint sub_group_ballot_exclusive_scan(uint4 v) { return __q_bits(v & __q_below((uint)LANE % __q_most())); }
OVER uint sub_group_ballot_find_lsb(uint4 v) {
    v = __q_within(v);
    return LOW(v) ? (uint)__builtin_ctzl(LOW(v)) : HIGH(v) ? 64 + (uint)__builtin_ctzl(HIGH(v)) : __q_most();
}
OVER uint sub_group_ballot_find_msb(uint4 v) {
    v = __q_within(v);
    return HIGH(v) ? 127 - (uint)__builtin_clzl(HIGH(v)) : LOW(v) ? 63 - (uint)__builtin_clzl(LOW(v)) : __q_most();
}
OVER uint4 get_sub_group_lt_mask(void) { return __q_below((uint)LANE % __q_most()); }
OVER uint4 get_sub_group_le_mask(void) { return __q_below((uint)LANE % __q_most() + 1); }
OVER uint4 get_sub_group_eq_mask(void) { return get_sub_group_le_mask() & ~get_sub_group_lt_mask(); }
OVER uint4 get_sub_group_ge_mask(void) { return __q_within(~get_sub_group_lt_mask()); }
OVER uint4 get_sub_group_gt_mask(void) { return __q_within(~get_sub_group_le_mask()); }
#endif
