// Mathematical functions of `float`, made of arithmetic alone: no branches, no calls, no tables. So the optimiser makes vectors
// of a loop over work-items that calls them, which it cannot where they are the system's.
//
// The polynomials for exponents, logarithms, angles and `tanh` are those of the Cephes library (Moshier, 1992).

#ifdef PART_math
#define SINGLE __attribute__((always_inline)) static inline
#define FMA __builtin_elementwise_fma
#define INFINITE __builtin_inff()
SINGLE int __q_bits(float a) { union { float f; int i; } u; u.f = a; return u.i; }
SINGLE float __q_float(int a) { union { int i; float f; } u; u.i = a; return u.f; }

// The nearest whole number, for less than 2^22 either way, is in the last bits of a sum with ROUNDER. In those of a sum with
// SCALER it is greater by the biases of two exponents.
#define ROUNDER 0x1.8p23f
#define SCALER (ROUNDER + 254.0f)

// a * 2^n for a sum of n with SCALER, where the result may be infinite or of fewer bits: in two steps, of which only the second
// rounds. The sum's other bits are shifted out.
SINGLE float __q_scaled(float a, float sum) {
    unsigned int n = (unsigned int)__q_bits(sum), half_of = n >> 1;
    return a * __q_float((int)(half_of << 23)) * __q_float((int)((n - half_of) << 23));
}

// f + e r + d r^2 + c r^3 + b r^4 + a r^5. Its parts do not wait for each other, as those of Horner's form do.
SINGLE float __q_six(float r, float square, float a, float b, float c, float d, float e, float f) {
    return FMA(FMA(FMA(a, r, b), square, FMA(c, r, d)), square, FMA(e, r, f));
}

// Numbers that are none pass through both comparisons.
SINGLE float __q_within(float a, float least, float most) { a = a < least ? least : a; return a > most ? most : a; }

SINGLE float __q_exp(float a) {
    a = __q_within(a, -110.0f, 90.0f);
    float t = FMA(a, 1.44269504f, SCALER), n = t - SCALER;
    float r = FMA(n, -0.693359375f, a);
    r = FMA(n, 2.12194440e-4f, r);
    float square = r * r;
    float p = __q_six(r, square, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                      5.0000001201e-1f);
    return __q_scaled(FMA(p, square, r) + 1.0f, t);
}

// 2^r for r within a half.
SINGLE float __q_exp2_within_half(float r) {
    float p = __q_six(r, r * r, 1.535336188319500e-4f, 1.339887440266574e-3f, 9.618437357674640e-3f, 5.550332471162809e-2f,
                      2.402264791363012e-1f, 6.931472028550421e-1f);
    return FMA(p, r, 1.0f);
}

SINGLE float __q_exp2(float a) {
    a = __q_within(a, -160.0f, 130.0f);
    float t = a + SCALER;
    return __q_scaled(__q_exp2_within_half(a - (t - SCALER)), t);
}

SINGLE float __q_exp10(float a) {
    a = __q_within(a, -48.0f, 39.0f);
    float t = FMA(a, 3.32192809f, SCALER), n = t - SCALER;
    float r = FMA(n, -3.00781250e-1f, a);
    r = FMA(n, -2.48745663981195e-4f, r);
    float p = __q_six(r, r * r, 2.063236740311022e-1f, 5.420251702225484e-1f, 1.171292686296281f, 2.034649854009453f,
                      2.650948748208892f, 2.302585167056758f);
    return __q_scaled(FMA(p, r, 1.0f), t);
}

// a = m * 2^n, with m between the square roots of a half and of two.
SINGLE float __q_parts(float a, int *n) {
    const float least = 0x1p-126f;
    int bits = __q_bits(a < least ? a * 0x1p23f : a);
    int power = (bits - 0x3f3504f3) >> 23;
    *n = power - (a < least ? 23 : 0);
    return __q_float(bits - (power << 23));
}

// log(1 + x) - x for x between the square roots of a half and of two, less one.
SINGLE float __q_log_rest(float x) {
    float square = x * x;
    float p = FMA(FMA(7.0376836292e-2f, x, -1.1514610310e-1f), x, 1.1676998740e-1f);
    p = FMA(p, square * square,
            FMA(FMA(-1.2420140846e-1f, x, 1.4249322787e-1f), square, FMA(-1.6668057665e-1f, x, 2.0000714765e-1f)));
    p = FMA(p, square, FMA(-2.4999993993e-1f, x, 3.3333331174e-1f));
    return FMA(p * x, square, -0.5f * square);
}

// The exponent of a, in place of which is what the logarithm is of zero, of what is below it, and of what is infinite or no
// number.
SINGLE float __q_exponent(float a, int n) {
    float e = a < INFINITE ? (float)n : a;
    e = a == 0.0f ? -INFINITE : e;
    return a < 0.0f ? __builtin_nanf("") : e;
}

SINGLE float __q_log(float a) {
    int n;
    float x = __q_parts(a, &n) - 1.0f, e = (float)n;
    float rest = FMA(e, -2.12194440e-4f, __q_log_rest(x));
    return FMA(__q_exponent(a, n), 0.693359375f, x + rest);
}

SINGLE float __q_log2(float a) {
    int n;
    float x = __q_parts(a, &n) - 1.0f, y = __q_log_rest(x);
    float r = FMA(y, 0.442695041f, x * 0.442695041f) + y;
    return r + x + __q_exponent(a, n);
}

SINGLE float __q_log10(float a) {
    int n;
    float x = __q_parts(a, &n) - 1.0f, y = __q_log_rest(x), e = (float)n;
    float r = (x + y) * 7.00731903251827651e-4f;
    r = FMA(y, 4.3359375e-1f, r);
    r = FMA(x, 4.3359375e-1f, r);
    r = FMA(e, 2.48745663981195214e-4f, r);
    return FMA(__q_exponent(a, n), 3.0078125e-1f, r);
}

// A near angle less a multiple of a quarter turn, and the last bits of that multiple, for at most 2^16. A greater one counts as 0,
// or NaN if it is infinite.
SINGLE float __q_near_angle(float a, int *quarter) {
    a = a <= 0x1p16f ? a : a - a;
    float t = FMA(a, 0.636619772f, ROUNDER), n = t - ROUNDER;
    *quarter = __q_bits(t);
    float r = FMA(n, -0x1.921fb6p0f, a);
    r = FMA(n, 0x1.777a5cp-25f, r);
    return FMA(n, 0x1.ee59dap-50f, r);
}

// What is left of 2^-24, 2^-23, ... whole angles, as parts of turns: 96 bits after the point each.
static __constant unsigned int __q_turns[387] = {
    0x00000028, 0xbe60db93, 0x91054a7f, 0x00000051, 0x7cc1b727, 0x220a94fe,
    0x000000a2, 0xf9836e4e, 0x441529fc, 0x00000145, 0xf306dc9c, 0x882a53f8,
    0x0000028b, 0xe60db939, 0x1054a7f0, 0x00000517, 0xcc1b7272, 0x20a94fe1,
    0x00000a2f, 0x9836e4e4, 0x41529fc2, 0x0000145f, 0x306dc9c8, 0x82a53f84,
    0x000028be, 0x60db9391, 0x054a7f09, 0x0000517c, 0xc1b72722, 0x0a94fe13,
    0x0000a2f9, 0x836e4e44, 0x1529fc27, 0x000145f3, 0x06dc9c88, 0x2a53f84e,
    0x00028be6, 0x0db93910, 0x54a7f09d, 0x000517cc, 0x1b727220, 0xa94fe13a,
    0x000a2f98, 0x36e4e441, 0x529fc275, 0x00145f30, 0x6dc9c882, 0xa53f84ea,
    0x0028be60, 0xdb939105, 0x4a7f09d5, 0x00517cc1, 0xb727220a, 0x94fe13ab,
    0x00a2f983, 0x6e4e4415, 0x29fc2757, 0x0145f306, 0xdc9c882a, 0x53f84eaf,
    0x028be60d, 0xb9391054, 0xa7f09d5f, 0x0517cc1b, 0x727220a9, 0x4fe13abe,
    0x0a2f9836, 0xe4e44152, 0x9fc2757d, 0x145f306d, 0xc9c882a5, 0x3f84eafa,
    0x28be60db, 0x9391054a, 0x7f09d5f4, 0x517cc1b7, 0x27220a94, 0xfe13abe8,
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0x45f306dc, 0x9c882a53, 0xf84eafa3,
    0x8be60db9, 0x391054a7, 0xf09d5f47, 0x17cc1b72, 0x7220a94f, 0xe13abe8f,
    0x2f9836e4, 0xe441529f, 0xc2757d1f, 0x5f306dc9, 0xc882a53f, 0x84eafa3e,
    0xbe60db93, 0x91054a7f, 0x09d5f47d, 0x7cc1b727, 0x220a94fe, 0x13abe8fa,
    0xf9836e4e, 0x441529fc, 0x2757d1f5, 0xf306dc9c, 0x882a53f8, 0x4eafa3ea,
    0xe60db939, 0x1054a7f0, 0x9d5f47d4, 0xcc1b7272, 0x20a94fe1, 0x3abe8fa9,
    0x9836e4e4, 0x41529fc2, 0x757d1f53, 0x306dc9c8, 0x82a53f84, 0xeafa3ea6,
    0x60db9391, 0x054a7f09, 0xd5f47d4d, 0xc1b72722, 0x0a94fe13, 0xabe8fa9a,
    0x836e4e44, 0x1529fc27, 0x57d1f534, 0x06dc9c88, 0x2a53f84e, 0xafa3ea69,
    0x0db93910, 0x54a7f09d, 0x5f47d4d3, 0x1b727220, 0xa94fe13a, 0xbe8fa9a6,
    0x36e4e441, 0x529fc275, 0x7d1f534d, 0x6dc9c882, 0xa53f84ea, 0xfa3ea69b,
    0xdb939105, 0x4a7f09d5, 0xf47d4d37, 0xb727220a, 0x94fe13ab, 0xe8fa9a6e,
    0x6e4e4415, 0x29fc2757, 0xd1f534dd, 0xdc9c882a, 0x53f84eaf, 0xa3ea69bb,
    0xb9391054, 0xa7f09d5f, 0x47d4d377, 0x727220a9, 0x4fe13abe, 0x8fa9a6ee,
    0xe4e44152, 0x9fc2757d, 0x1f534ddc, 0xc9c882a5, 0x3f84eafa, 0x3ea69bb8,
    0x9391054a, 0x7f09d5f4, 0x7d4d3770, 0x27220a94, 0xfe13abe8, 0xfa9a6ee0,
    0x4e441529, 0xfc2757d1, 0xf534ddc0, 0x9c882a53, 0xf84eafa3, 0xea69bb81,
    0x391054a7, 0xf09d5f47, 0xd4d37703, 0x7220a94f, 0xe13abe8f, 0xa9a6ee06,
    0xe441529f, 0xc2757d1f, 0x534ddc0d, 0xc882a53f, 0x84eafa3e, 0xa69bb81b,
    0x91054a7f, 0x09d5f47d, 0x4d377036, 0x220a94fe, 0x13abe8fa, 0x9a6ee06d,
    0x441529fc, 0x2757d1f5, 0x34ddc0db, 0x882a53f8, 0x4eafa3ea, 0x69bb81b6,
    0x1054a7f0, 0x9d5f47d4, 0xd377036d, 0x20a94fe1, 0x3abe8fa9, 0xa6ee06db,
    0x41529fc2, 0x757d1f53, 0x4ddc0db6, 0x82a53f84, 0xeafa3ea6, 0x9bb81b6c,
    0x054a7f09, 0xd5f47d4d, 0x377036d8, 0x0a94fe13, 0xabe8fa9a, 0x6ee06db1,
    0x1529fc27, 0x57d1f534, 0xddc0db62, 0x2a53f84e, 0xafa3ea69, 0xbb81b6c5,
    0x54a7f09d, 0x5f47d4d3, 0x77036d8a, 0xa94fe13a, 0xbe8fa9a6, 0xee06db14,
    0x529fc275, 0x7d1f534d, 0xdc0db629, 0xa53f84ea, 0xfa3ea69b, 0xb81b6c52,
    0x4a7f09d5, 0xf47d4d37, 0x7036d8a5, 0x94fe13ab, 0xe8fa9a6e, 0xe06db14a,
    0x29fc2757, 0xd1f534dd, 0xc0db6295, 0x53f84eaf, 0xa3ea69bb, 0x81b6c52b,
    0xa7f09d5f, 0x47d4d377, 0x036d8a56, 0x4fe13abe, 0x8fa9a6ee, 0x06db14ac,
    0x9fc2757d, 0x1f534ddc, 0x0db62959, 0x3f84eafa, 0x3ea69bb8, 0x1b6c52b3,
    0x7f09d5f4, 0x7d4d3770, 0x36d8a566, 0xfe13abe8, 0xfa9a6ee0, 0x6db14acc,
    0xfc2757d1, 0xf534ddc0, 0xdb629599, 0xf84eafa3, 0xea69bb81, 0xb6c52b32,
    0xf09d5f47, 0xd4d37703, 0x6d8a5664, 0xe13abe8f, 0xa9a6ee06, 0xdb14acc9,
    0xc2757d1f, 0x534ddc0d, 0xb6295993, 0x84eafa3e, 0xa69bb81b, 0x6c52b327,
    0x09d5f47d, 0x4d377036, 0xd8a5664f, 0x13abe8fa, 0x9a6ee06d, 0xb14acc9e,
    0x2757d1f5, 0x34ddc0db, 0x6295993c, 0x4eafa3ea, 0x69bb81b6, 0xc52b3278,
    0x9d5f47d4, 0xd377036d, 0x8a5664f1, 0x3abe8fa9, 0xa6ee06db, 0x14acc9e2,
    0x757d1f53, 0x4ddc0db6, 0x295993c4, 0xeafa3ea6, 0x9bb81b6c, 0x52b32788,
    0xd5f47d4d, 0x377036d8, 0xa5664f10, 0xabe8fa9a, 0x6ee06db1, 0x4acc9e21,
    0x57d1f534, 0xddc0db62, 0x95993c43, 0xafa3ea69, 0xbb81b6c5, 0x2b327887,
    0x5f47d4d3, 0x77036d8a, 0x5664f10e, 0xbe8fa9a6, 0xee06db14, 0xacc9e21c,
    0x7d1f534d, 0xdc0db629, 0x5993c439, 0xfa3ea69b, 0xb81b6c52, 0xb3278872,
    0xf47d4d37, 0x7036d8a5, 0x664f10e4, 0xe8fa9a6e, 0xe06db14a, 0xcc9e21c8,
    0xd1f534dd, 0xc0db6295, 0x993c4390, 0xa3ea69bb, 0x81b6c52b, 0x32788720,
    0x47d4d377, 0x036d8a56, 0x64f10e41, 0x8fa9a6ee, 0x06db14ac, 0xc9e21c82,
    0x1f534ddc, 0x0db62959, 0x93c43904, 0x3ea69bb8, 0x1b6c52b3, 0x27887208,
    0x7d4d3770, 0x36d8a566, 0x4f10e410, 0xfa9a6ee0, 0x6db14acc, 0x9e21c820,
    0xf534ddc0, 0xdb629599, 0x3c439041, 0xea69bb81, 0xb6c52b32, 0x78872083,
    0xd4d37703, 0x6d8a5664, 0xf10e4107, 0xa9a6ee06, 0xdb14acc9, 0xe21c820f,
    0x534ddc0d, 0xb6295993, 0xc439041f, 0xa69bb81b, 0x6c52b327, 0x8872083f,
    0x4d377036, 0xd8a5664f, 0x10e4107f,
};

// The same for any angle that is not below zero, of which all bits count (Payne and Hanek, 1983).
SINGLE float __q_any_angle(float a, int *quarter) {
    int bits = __q_bits(a), place = (bits >> 23) - 126;
    place = place < 0 ? 0 : place > 128 ? 128 : place;
    unsigned long m = (bits & 0x7fffff) | 0x800000;
    unsigned long high = __q_turns[3 * place], middle = __q_turns[3 * place + 1], low = __q_turns[3 * place + 2];
    unsigned long turns = ((m * high) << 32) + m * middle + (m * low >> 32);
    unsigned int nearest = ((unsigned int)(turns >> 32) + 0x20000000u) >> 30;
    int upper = (int)((unsigned int)(turns >> 32) - (nearest << 30)), lower = (int)((unsigned int)turns >> 1);
    // In parts of a turn of 2^-32 and 2^-63.
    const double turn = 6.283185307179586;
    float r = (float)((double)upper * (turn * 0x1p-32) + (double)lower * (turn * 0x1p-63));
    int is_small = a < 0.5f;
    *quarter = is_small ? 0 : (int)nearest;
    r = is_small ? a : r;
    return a < INFINITE ? r : __builtin_nanf("");
}

SINGLE float __q_sine(float r) {
    float z = r * r;
    float p = FMA(-1.9515295891e-4f, z, 8.3321608736e-3f);
    p = FMA(p, z, -1.6666654611e-1f);
    return FMA(p * z, r, r);
}

SINGLE float __q_cosine(float r) {
    float z = r * r;
    float p = FMA(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    p = FMA(p, z, 4.166664568298827e-2f);
    return FMA(p * z, z, FMA(-0.5f, z, 1.0f));
}

// Each for any angle, and for near ones.
#define OF_ANGLES(of) \
    SINGLE float __q##of##sin(float a) { \
        int quarter; \
        float r = __q##of##angle(__builtin_elementwise_abs(a), &quarter); \
        float s = quarter & 1 ? __q_cosine(r) : __q_sine(r); \
        s = quarter & 2 ? -s : s; \
        return __q_float(__q_bits(s) ^ (__q_bits(a) & (int)0x80000000)); \
    } \
    SINGLE float __q##of##cos(float a) { \
        int quarter; \
        float r = __q##of##angle(__builtin_elementwise_abs(a), &quarter); \
        float c = quarter & 1 ? __q_sine(r) : __q_cosine(r); \
        return (quarter + 1) & 2 ? -c : c; \
    } \
    SINGLE float __q##of##tan(float a) { \
        int quarter; \
        float r = __q##of##angle(__builtin_elementwise_abs(a), &quarter), s = __q_sine(r), c = __q_cosine(r); \
        float t = quarter & 1 ? -c / s : s / c; \
        return __q_float(__q_bits(t) ^ (__q_bits(a) & (int)0x80000000)); \
    }
OF_ANGLES(_any_) OF_ANGLES(_near_)

SINGLE float __q_tanh(float a) {
    float m = __builtin_elementwise_abs(a), z = m * m;
    float p = FMA(-5.70498872745e-3f, z, 2.06390887954e-2f);
    p = FMA(p, z, -5.37397155531e-2f);
    p = FMA(p, z, 1.33314422036e-1f);
    p = FMA(p, z, -3.33332819422e-1f);
    float small = FMA(p * z, m, m);
    float large = 1.0f - 2.0f / (__q_exp(m + m) + 1.0f);
    return __builtin_elementwise_copysign(m < 0.625f ? small : large, a);
}

// Of parts of half a turn, reduced exactly to within a quarter. The number pi is a sum of two.
SINGLE float __q_times_pi(float a) { return FMA(a, 0x1.921fb6p1f, a * -0x1.777a5cp-24f); }
SINGLE float __q_f_sinpi(float a) {
    float r = a - 2.0f * __builtin_elementwise_rint(a * 0.5f);
    float m = __builtin_elementwise_abs(r);
    m = m > 0.5f ? 1.0f - m : m;
    float s = m > 0.25f ? __q_cosine(__q_times_pi(0.5f - m)) : __q_sine(__q_times_pi(m));
    return __builtin_elementwise_copysign(s, m == 0.0f ? a : r);
}
SINGLE float __q_f_cospi(float a) {
    float r = __builtin_elementwise_abs(a - 2.0f * __builtin_elementwise_rint(a * 0.5f));
    float near = r > 0.5f ? 1.0f - r : r;
    float c = near < 0.25f ? __q_cosine(__q_times_pi(near)) : __q_sine(__q_times_pi(0.5f - near));
    return r > 0.5f ? -c : c;
}
SINGLE float __q_f_tanpi(float a) { return __q_f_sinpi(a) / __q_f_cospi(a); }

// A power of what is not below zero, as 2^(high + low), for exponents of the two kinds below. The lower part is left out where the
// result is none of the usual ones.
SINGLE float __q_exp2_of_sum(float high, float low) {
    float within = __q_within(high, -160.0f, 130.0f);
    low = within == high ? low : 0.0f;
    float t = within + SCALER;
    return __q_scaled(__q_exp2_within_half(within - (t - SCALER) + low), t);
}

// The sign of a power, and powers that are no arithmetic. What is below zero has powers for whole numbers alone.
SINGLE float __q_power_of(float a, float r, int is_whole, int is_odd, int is_infinite, int is_zero) {
    float m = __builtin_elementwise_abs(a);
    r = is_odd ? __builtin_elementwise_copysign(r, a) : r;
    r = (a < 0.0f) & (m < INFINITE) & !is_whole ? __builtin_nanf("") : r;
    r = (m == 1.0f) & is_infinite ? 1.0f : r;
    return is_zero | (a == 1.0f) ? 1.0f : r;
}

// Sums of two numbers stand for the logarithm and its product, so that enough bits are left.
SINGLE float __q_pow(float a, float b) {
    float m = __builtin_elementwise_abs(a);
    int n;
    float x = __q_parts(m, &n);
    // s = (x - 1) / (x + 1), of which the logarithm is a series.
    float above = x - 1.0f, below = x + 1.0f, below_rest = x - (below - 1.0f);
    float inverse = 1.0f / below, s = above * inverse;
    float s_rest = FMA(-s, below_rest, FMA(-s, below, above)) * inverse;
    float z = s * s;
    float p = 1.0f / 11;
    p = FMA(p, z, 1.0f / 9);
    p = FMA(p, z, 1.0f / 7);
    p = FMA(p, z, 1.0f / 5);
    p = FMA(p, z, 1.0f / 3);
    const float two_over_log2 = 0x1.715476p1f, its_rest = 0x1.4ae0cp-25f;
    float high = s * two_over_log2;
    float low = FMA(s, its_rest, FMA(s, two_over_log2, -high));
    low = FMA(FMA(p, s * z, s_rest), two_over_log2, low);
    float e = (float)n, sum = e + high;
    low += e - sum + high;
    float logarithm = sum + low;
    low += sum - logarithm;
    logarithm = m == 0.0f ? -INFINITE : m < INFINITE ? logarithm : m;
    float power = b * logarithm;
    float r = __q_exp2_of_sum(power, FMA(b, low, FMA(b, logarithm, -power)));
    float half_of = b * 0.5f;
    int is_whole = b == __builtin_elementwise_rint(b);
    int is_odd = is_whole & (half_of != __builtin_elementwise_rint(half_of));
    return __q_power_of(a, r, is_whole, is_odd, __builtin_elementwise_abs(b) == INFINITE, b == 0.0f);
}

// For exponents that have more bits than a `float`.
SINGLE float __q_power(float a, double b) {
    float m = __builtin_elementwise_abs(a);
    int n;
    double x = (double)__q_parts(m, &n);
    double s = (x - 1.0) / (x + 1.0), z = s * s;
    double p = 1.0 / 13;
    p = FMA(p, z, 1.0 / 11);
    p = FMA(p, z, 1.0 / 9);
    p = FMA(p, z, 1.0 / 7);
    p = FMA(p, z, 1.0 / 5);
    p = FMA(p, z, 1.0 / 3);
    p = FMA(p, z, 1.0);
    double logarithm = FMA(s * 2.8853900817779268, p, (double)n);
    logarithm = m == 0.0f ? -__builtin_inf() : m < INFINITE ? logarithm : (double)m;
    double power = b * logarithm;
    power = power < -160.0 ? -160.0 : power;
    power = power > 130.0 ? 130.0 : power;
    float high = (float)power;
    float r = __q_exp2_of_sum(high, (float)(power - (double)high));
    double of_half = b * 0.5;
    int is_whole = b == __builtin_elementwise_rint(b);
    int is_odd = is_whole & (of_half != __builtin_elementwise_rint(of_half));
    return __q_power_of(a, r, is_whole, is_odd, __builtin_elementwise_abs(b) == __builtin_inf(), b == 0.0);
}
#undef FMA
#undef SINGLE
#endif

