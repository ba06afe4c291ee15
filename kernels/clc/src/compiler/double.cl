// Mathematical functions for devices that have no library of the system: those that `builtins.cl` asks the system for, and those
// that LLVM has no code for. They are functions of `double`; those of `float` are the same, rounded once more.
//
// Polynomials go through the function at Chebyshev's points. A number that needs more bits than a `double` has is a sum of two,
// of which the second one is small (Dekker, 1971).

#ifdef PART_system
#pragma OPENCL FP_CONTRACT OFF
#define OWN static inline
#define FMA __builtin_elementwise_fma
#define ABS __builtin_elementwise_abs
#define NEAREST __builtin_elementwise_rint
#define SIGN_OF __builtin_elementwise_copysign
#define ROOT __builtin_elementwise_sqrt
#define INFINITE __builtin_inf()
#define NO_NUMBER __builtin_nan("")
// The next coefficient of a polynomial `p` of `z`.
#define NEXT(c) p = FMA(p, z, c);

OWN long __q_bits_of(double a) { union { double f; long i; } u; u.f = a; return u.i; }
OWN double __q_number(long a) { union { long i; double f; } u; u.i = a; return u.f; }
OWN int __q_power_of(double a) { return (int)(__q_bits_of(a) >> 52 & 0x7ff) - 1023; }
// 2^n for n from -1022 to 1023.
OWN double __q_two_to(int n) { return __q_number((long)(n + 1023) << 52); }

// a * 2^n, rounded once: the first steps of a small number keep all bits.
OWN double __q_shifted(double a, int n) {
    n = n < -2300 ? -2300 : n > 2300 ? 2300 : n;
    if (n > 1023) { a *= 0x1p1023; n -= 1023; if (n > 1023) { a *= 0x1p1023; n -= 1023; } }
    if (n < -969) { a *= 0x1p-969; n += 969; if (n < -969) { a *= 0x1p-969; n += 969; } }
    return n > 1023 ? a * INFINITE : n < -1022 ? a * 0.0 : a * __q_two_to(n);
}

// a = m * 2^n, with the size of m from 1/2 to 1, for a number that is finite and not 0.
OWN double __q_taken_apart(double a, int *n) {
    int small = ABS(a) < 0x1p-1022;
    a = small ? a * 0x1p54 : a;
    *n = __q_power_of(a) + 1 - (small ? 54 : 0);
    return __q_number((__q_bits_of(a) & ~(0x7ffl << 52)) | 0x3fel << 52);
}

typedef struct { double high, low; } __q_pair;
OWN __q_pair __q_sum(double a, double b) {
    double s = a + b, of_b = s - a;
    __q_pair r = { s, (a - (s - of_b)) + (b - of_b) };
    return r;
}
// Where the second one is smaller.
OWN __q_pair __q_settled(double a, double b) { double s = a + b; __q_pair r = { s, b - (s - a) }; return r; }
OWN __q_pair __q_product(double a, double b) { double p = a * b; __q_pair r = { p, FMA(a, b, -p) }; return r; }
OWN __q_pair __q_by(__q_pair a, double b, double c) {
    __q_pair p = __q_product(a.high, b);
    return __q_settled(p.high, FMA(a.high, c, FMA(a.low, b, p.low)));
}

// exp(a) = 1 + a + a * a * p, for a within half of log(2).
OWN double __q_exp_rest(double z) {
    double p = 0x1.61c0041f196cep-33;
    NEXT(0x1.1f7f7bd858cc6p-29) NEXT(0x1.ae642c522f57ep-26) NEXT(0x1.27e4d3ebbbbb4p-22) NEXT(0x1.71de3a5ab0d8p-19)
    NEXT(0x1.a01a01a9faa85p-16) NEXT(0x1.a01a01a019696p-13) NEXT(0x1.6c16c16c15a3fp-10) NEXT(0x1.1111111111111p-7)
    NEXT(0x1.5555555555557p-5) NEXT(0x1.5555555555555p-3) NEXT(0x1p-1)
    return p;
}
// log(2) in two parts, of which the first has 41 bits.
#define LOG_2_HIGH 0x1.62e42fefa3p-1
#define LOG_2_LOW 0x1.3de6af278ece6p-42
OWN int __q_twos(double a) { return (int)NEAREST(a * 0x1.71547652b82fep+0); }
// exp(a + b) * factor, with a small b.
OWN double __q_exp_of(double a, double b, double factor) {
    a = a < -1500.0 ? -1500.0 : a > 1500.0 ? 1500.0 : a;
    int n = __q_twos(a);
    __q_pair r = __q_sum(FMA((double)-n, LOG_2_HIGH, a), FMA((double)-n, LOG_2_LOW, b));
    double rest = FMA(r.high * r.high, __q_exp_rest(r.high), FMA(r.low, r.high, r.low));
    return __q_shifted(FMA(factor, r.high + rest, factor), n);
}

// log(2^n * m) as a sum of two, for m between the square roots of a half and of two.
OWN __q_pair __q_log_parts(double m, int n) {
    double f = m - 1.0, d = 2.0 + f, rest_of_d = f - (d - 2.0), inverse = 1.0 / d;
    double s = f * inverse, rest_of_s = FMA(-s, rest_of_d, FMA(-s, d, f)) * inverse;
    double z = s * s, rest_of_z = FMA(2.0 * s, rest_of_s, FMA(s, s, -z));
    double p = 0x1.e03770765d72p-4;
    NEXT(0x1.df7bec727b1bp-4) NEXT(0x1.1118cc02cb79ap-3) NEXT(0x1.3b1395beb5adp-3) NEXT(0x1.745d177ac47d7p-3)
    NEXT(0x1.c71c71c6ea6c8p-3) NEXT(0x1.2492492492522p-2) NEXT(0x1.999999999999ap-2)
    __q_pair u = __q_settled(0x1.5555555555555p-1, FMA(p, z, 0x1.5555555555555p-55));
    __q_pair w = __q_by(u, z, rest_of_z);
    __q_pair v = __q_by(w, s, rest_of_s);
    __q_pair r = __q_settled(2.0 * s, v.high);
    double low = r.low + FMA(2.0, rest_of_s, v.low);
    __q_pair all = __q_sum(n * LOG_2_HIGH, r.high);
    return __q_settled(all.high, all.low + FMA((double)n, LOG_2_LOW, low));
}
OWN __q_pair __q_log_pair(double a) {
    int n;
    double m = __q_taken_apart(a, &n);
    int is_small = m < 0x1.6a09e667f3bcdp-1;
    return __q_log_parts(is_small ? m + m : m, is_small ? n - 1 : n);
}
// What a logarithm is of zero, of what is below it, and of what is infinite or no number.
#define UNUSUAL_LOG(a) \
    if (a == 0.0) return -INFINITE; \
    if (a < 0.0) return NO_NUMBER; \
    if (!(a < INFINITE)) return a;
OWN double __q_own_log(double a) { UNUSUAL_LOG(a) __q_pair l = __q_log_pair(a); return l.high; }
OWN double __q_own_log2(double a) {
    UNUSUAL_LOG(a)
    int n;
    double m = __q_taken_apart(a, &n);
    int is_small = m < 0x1.6a09e667f3bcdp-1;
    __q_pair l = __q_log_parts(is_small ? m + m : m, 0);
    l = __q_by(l, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56);
    __q_pair r = __q_sum((double)(is_small ? n - 1 : n), l.high);
    return r.high + (r.low + l.low);
}
OWN double __q_own_log10(double a) {
    UNUSUAL_LOG(a)
    return __q_by(__q_log_pair(a), 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57).high;
}
OWN double __q_own_log1p(double a) {
    if (a == -1.0) return -INFINITE;
    if (a < -1.0) return NO_NUMBER;
    if (!(a < INFINITE) || ABS(a) < 0x1p-54) return a;
    __q_pair u = __q_sum(1.0, a), l = __q_log_pair(u.high);
    return l.high + (l.low + u.low / u.high);
}

OWN double __q_own_exp(double a) { return a != a ? a : __q_exp_of(a, 0.0, 1.0); }
OWN double __q_own_exp2(double a) {
    if (a != a) return a;
    a = a < -2000.0 ? -2000.0 : a > 2000.0 ? 2000.0 : a;
    double n = NEAREST(a), r = a - n;
    __q_pair l = __q_product(r, 0x1.62e42fefa39efp-1);
    return __q_shifted(__q_exp_of(l.high, FMA(r, 0x1.abc9e3b39803fp-56, l.low), 1.0), (int)n);
}
OWN double __q_own_exp10(double a) {
    if (a != a) return a;
    a = a < -400.0 ? -400.0 : a > 400.0 ? 400.0 : a;
    double n = NEAREST(a * 0x1.a934f0979a371p+1), r = FMA(-n, 0x1.34413509f7p-2, a), s = FMA(-n, 0x1.3fde623e2566bp-43, r);
    double lost = FMA(-n, 0x1.3fde623e2566bp-43, r - s);
    __q_pair l = __q_product(s, 0x1.26bb1bbb55516p+1);
    double low = FMA(lost, 0x1.26bb1bbb55516p+1, FMA(s, -0x1.f48ad494ea3e9p-53, l.low));
    return __q_shifted(__q_exp_of(l.high, low, 1.0), (int)n);
}
OWN double __q_own_expm1(double a) {
    if (a != a || a > 710.0) return a * INFINITE;
    if (a < -40.0) return -1.0;
    if (ABS(a) < 0x1p-54) return a;
    int n = __q_twos(a);
    double r = FMA((double)-n, LOG_2_HIGH, a), s = FMA((double)-n, LOG_2_LOW, r), lost = FMA((double)-n, LOG_2_LOW, r - s);
    double rest = FMA(s * s, __q_exp_rest(s), lost);
    if (n == 0) return s + rest;
    if (n > 53) return __q_shifted((s + rest) + 1.0, n);
    double two = __q_two_to(n);
    return FMA(two, s, two - 1.0) + two * rest;
}

OWN double __q_own_pow(double a, double b) {
    if (b == 0.0 || a == 1.0) return 1.0;
    if (a != a || b != b) return a + b;
    double m = ABS(a), half_of_b = b * 0.5;
    int is_whole = b == NEAREST(b), is_odd = is_whole && half_of_b != NEAREST(half_of_b);
    double sign = is_odd ? SIGN_OF(1.0, a) : 1.0;
    if (m == 1.0 && (is_whole || ABS(b) == INFINITE)) return ABS(b) == INFINITE ? 1.0 : sign;
    if (ABS(b) == INFINITE) return (m > 1.0) == (b > 0.0) ? INFINITE : 0.0;
    if (m == 0.0 || m == INFINITE) return sign * ((m == 0.0) == (b > 0.0) ? 0.0 : INFINITE);
    if (a < 0.0 && !is_whole) return NO_NUMBER;
    __q_pair l = __q_log_pair(m);
    double most = b * l.high;
    if (ABS(most) > 1500.0) return sign * (most > 0.0 ? INFINITE : 0.0);
    __q_pair p = __q_product(b, l.high);
    return __q_exp_of(p.high, FMA(b, l.low, p.low), sign);
}
OWN double __q_own_powi(double a, int b) { return __q_own_pow(a, (double)b); }

// The bits of 2 / pi, from 64 zeros before the point on.
static __constant unsigned int __q_two_of_pi[40] = {
    0x00000000, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041,
    0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
    0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b,
    0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d,
    0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab,
};
// What is left of an angle less the nearest multiple of a quarter turn, and the last bits of that multiple (Payne and Hanek, 1983).
OWN __q_pair __q_far_angle(double a, int *quarter) {
    unsigned long m = (__q_bits_of(a) & 0xffffffffffffful) | 1ul << 52;
    // Bits of 2 / pi whose products with it are multiples of 4 are left out.
    int first = 64 + __q_power_of(a) - 52 - 2;
    unsigned int product[6] = { 0, 0, 0, 0, 0, 0 };
    unsigned long carry[2] = { 0, 0 };
    unsigned int part[2] = { (unsigned int)m, (unsigned int)(m >> 32) };
    for (int i = 5; i >= 0; i--) {
        int word = (first >> 5) + i, by = first & 31;
        unsigned long two = (unsigned long)__q_two_of_pi[word] << 32 | __q_two_of_pi[word + 1];
        unsigned long bits = two >> (32 - by) & 0xfffffffful;
        carry[0] += bits * part[0] + product[i];
        product[i] = (unsigned int)carry[0];
        carry[0] >>= 32;
        if (i > 0) {
            carry[1] += bits * part[1] + product[i - 1];
            product[i - 1] = (unsigned int)carry[1];
            carry[1] >>= 32;
        }
    }
    unsigned long high = (unsigned long)product[0] << 32 | product[1], middle = (unsigned long)product[2] << 32 | product[3];
    // It begins with the two bits of the quarter.
    int n = (int)(high >> 62);
    long fraction = (long)(high << 2 | middle >> 62);
    middle <<= 2;
    int is_less = fraction < 0;
    *quarter = n + is_less;
    unsigned long upper = is_less ? ~(unsigned long)fraction : (unsigned long)fraction, lower = is_less ? ~middle : middle;
    // Bits in front that are zero give way to those behind.
    int zeros = upper ? __builtin_clzl(upper) : 63;
    upper = zeros ? upper << zeros | lower >> (64 - zeros) : upper;
    lower <<= zeros;
    double scale = __q_two_to(-zeros) * (is_less ? -1.0 : 1.0);
    __q_pair turns = __q_settled((double)(upper >> 11) * 0x1p-53, (double)((upper << 53 | lower >> 11) >> 11) * 0x1p-106);
    __q_pair r = __q_by(turns, 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54);
    r.high *= scale;
    r.low *= scale;
    return r;
}
// The same for an angle that is finite and not below zero, by subtraction where that has enough bits.
OWN __q_pair __q_angle_of(double a, int *quarter) {
    if (a > 0x1p20) return __q_far_angle(a, quarter);
    double n = NEAREST(a * 0x1.45f306dc9c883p-1);
    *quarter = (int)n;
    double r = FMA(-n, 0x1.921fb54442d18p+0, a);
    __q_pair p = __q_product(n, 0x1.1a62633145c07p-54), s = __q_sum(r, -p.high);
    return __q_settled(s.high, FMA(n, 0x1.f1976b7ed8fbcp-110, s.low - p.low));
}
OWN double __q_sine_of(__q_pair r) {
    double z = r.high * r.high;
    double p = -0x1.ab17a79237a19p-41;
    NEXT(0x1.61217ec01749dp-33) NEXT(-0x1.ae64541266378p-26) NEXT(0x1.71de3a54605eep-19) NEXT(-0x1.a01a01a019936p-13)
    NEXT(0x1.111111111111p-7) NEXT(-0x1.5555555555555p-3)
    return r.high + FMA(r.high * z, p, r.low * FMA(-0.5, z, 1.0));
}
OWN double __q_cosine_of(__q_pair r) {
    double z = r.high * r.high, half_of_z = 0.5 * z, w = 1.0 - half_of_z;
    double p = 0x1.ab783376962cfp-45;
    NEXT(-0x1.9394b9c9c20a4p-37) NEXT(0x1.1eed8deb6d561p-29) NEXT(-0x1.27e4fb7712bdfp-22) NEXT(0x1.a01a01a019d0ap-16)
    NEXT(-0x1.6c16c16c16c16p-10) NEXT(0x1.5555555555555p-5)
    return w + (((1.0 - w) - half_of_z) + FMA(z * z, p, -r.high * r.low));
}
OWN double __q_own_sin(double a) {
    if (!(ABS(a) < INFINITE)) return NO_NUMBER;
    int quarter;
    __q_pair r = __q_angle_of(ABS(a), &quarter);
    double s = quarter & 1 ? __q_cosine_of(r) : __q_sine_of(r);
    s = quarter & 2 ? -s : s;
    return a == 0.0 ? a : a < 0.0 ? -s : s;
}
OWN double __q_own_cos(double a) {
    if (!(ABS(a) < INFINITE)) return NO_NUMBER;
    int quarter;
    __q_pair r = __q_angle_of(ABS(a), &quarter);
    double c = quarter & 1 ? __q_sine_of(r) : __q_cosine_of(r);
    return (quarter + 1) & 2 ? -c : c;
}
OWN double __q_own_tan(double a) {
    if (!(ABS(a) < INFINITE)) return NO_NUMBER;
    int quarter;
    __q_pair r = __q_angle_of(ABS(a), &quarter);
    double s = __q_sine_of(r), c = __q_cosine_of(r), t = quarter & 1 ? -c / s : s / c;
    return a == 0.0 ? a : a < 0.0 ? -t : t;
}
// Of parts of half a turn, exactly reduced: for functions of gamma.
OWN double __q_sine_of_half_turns(double a) {
    double r = a - 2.0 * NEAREST(a * 0.5), m = ABS(r);
    m = m > 0.5 ? 1.0 - m : m;
    __q_pair pi = { 0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53 };
    double s = m > 0.25 ? __q_cosine_of(__q_by(pi, 0.5 - m, 0.0)) : __q_sine_of(__q_by(pi, m, 0.0));
    return SIGN_OF(s, r);
}

// What is left of asin(a) less a, for z = a * a of a quarter at most.
OWN double __q_asin_rest(double a, double z) {
    double p = 0x1.e58a4f278e007p-6;
    NEXT(-0x1.3bd7e353ddbc2p-6) NEXT(0x1.40c91fa8deb7ep-6) NEXT(0x1.8dcdf11997e0fp-9) NEXT(0x1.31777489dfd29p-7)
    NEXT(0x1.3b462d121c5d2p-7) NEXT(0x1.7b02ef007d23ep-7) NEXT(0x1.c990a42b32b03p-7) NEXT(0x1.1c4efd20ebb99p-6)
    NEXT(0x1.6e8ba121b9d5fp-6) NEXT(0x1.f1c71c7a5e151p-6) NEXT(0x1.6db6db6dac0eap-5) NEXT(0x1.3333333333389p-4)
    NEXT(0x1.5555555555555p-3)
    return a * z * p;
}
OWN double __q_own_asin(double a) {
    double m = ABS(a);
    if (m < 0x1p-27) return a;
    if (m <= 0.5) return a + __q_asin_rest(a, a * a);
    if (!(m <= 1.0)) return NO_NUMBER;
    double z = (1.0 - m) * 0.5, s = ROOT(z), lost = s > 0.0 ? FMA(-s, s, z) / (s + s) : 0.0;
    __q_pair r = __q_settled(0x1.921fb54442d18p+0, -2.0 * s);
    return SIGN_OF(r.high + (r.low - 2.0 * (lost + __q_asin_rest(s, z)) + 0x1.1a62633145c07p-54), a);
}
OWN double __q_own_acos(double a) {
    double m = ABS(a);
    if (m <= 0.5) {
        __q_pair r = __q_settled(0x1.921fb54442d18p+0, -a);
        return r.high + (r.low - __q_asin_rest(a, a * a) + 0x1.1a62633145c07p-54);
    }
    if (!(m <= 1.0)) return NO_NUMBER;
    double z = (1.0 - m) * 0.5, s = ROOT(z), lost = s > 0.0 ? FMA(-s, s, z) / (s + s) : 0.0;
    double r = 2.0 * (s + (lost + __q_asin_rest(s, z)));
    return a > 0.0 ? r : 0x1.921fb54442d18p+1 - (r - 0x1.1a62633145c07p-53);
}
// The angle of a point whose coordinates are not below zero.
OWN double __q_angle_to(double y, double x) {
    double base = 0.0, rest = 0.0, t;
    if (y <= 0x1.a827999fcef32p-2 * x) t = y == 0.0 ? 0.0 : y / x;
    else if (y <= 0x1.3504f333f9de6p+1 * x) { base = 0x1.921fb54442d18p-1; rest = 0x1.1a62633145c07p-55; t = (y - x) / (y + x); }
    else { base = 0x1.921fb54442d18p+0; rest = 0x1.1a62633145c07p-54; t = -x / y; }
    double z = t * t;
    double p = 0x1.0a979bf997e84p-6;
    NEXT(-0x1.1b18ba092ac72p-5) NEXT(0x1.74d35362c10fp-5) NEXT(-0x1.ac7845d2c030bp-5) NEXT(0x1.e199c39d88253p-5)
    NEXT(-0x1.110e848e30781p-4) NEXT(0x1.3b1392a832fecp-4) NEXT(-0x1.745d165c3ba74p-4) NEXT(0x1.c71c71c2fbdc1p-4)
    NEXT(-0x1.249249248d734p-3) NEXT(0x1.9999999999952p-3) NEXT(-0x1.5555555555555p-2)
    __q_pair r = __q_settled(base, t);
    return base == 0.0 ? t + t * z * p : r.high + (r.low + FMA(t * z, p, rest));
}
OWN double __q_own_atan(double a) {
    if (a != a) return a;
    double m = ABS(a);
    return SIGN_OF(m < 0x1p54 ? __q_angle_to(m, 1.0) : 0x1.921fb54442d18p+0, a);
}
OWN double __q_own_atan2(double y, double x) {
    if (x != x || y != y) return x + y;
    double of_y = ABS(y), of_x = ABS(x), r;
    if (of_x == 0.0 && of_y > 0.0) return SIGN_OF(0x1.921fb54442d18p+0, y);
    if (of_y == INFINITE && of_x == INFINITE) r = 0x1.921fb54442d18p-1;
    else if (of_y == 0.0 || of_x == INFINITE) r = 0.0;
    else if (of_y == INFINITE) r = 0x1.921fb54442d18p+0;
    else {
        double by = of_y > 0x1p900 || of_x > 0x1p900 ? 0x1p-200 : of_y < 0x1p-700 && of_x < 0x1p-700 ? 0x1p300 : 1.0;
        r = __q_angle_to(of_y * by, of_x * by);
    }
    r = __q_bits_of(x) < 0 ? 0x1.921fb54442d18p+1 - (r - 0x1.1a62633145c07p-53) : r;
    return SIGN_OF(r, y);
}

OWN double __q_own_sinh(double a) {
    double m = ABS(a);
    if (m > 709.0) return a != a ? a : __q_exp_of(m, 0.0, SIGN_OF(0.5, a));
    double t = __q_own_expm1(m), r = m < 1.0 ? FMA(2.0, t, -t * (t / (t + 1.0))) : t + t / (t + 1.0);
    return m < 0x1p-28 ? a : SIGN_OF(0.5 * r, a);
}
OWN double __q_own_cosh(double a) {
    double m = ABS(a);
    if (a != a) return a;
    double e = __q_exp_of(m, 0.0, 0.5);
    return m > 40.0 ? e : e + 0.25 / e;
}
OWN double __q_own_tanh(double a) {
    double m = ABS(a);
    if (a != a || m < 0x1p-28) return a;
    double t = __q_own_expm1(m < 0.5 ? -2.0 * m : 2.0 * m);
    return SIGN_OF(m > 22.0 ? 1.0 : m < 0.5 ? -t / (t + 2.0) : 1.0 - 2.0 / (t + 2.0), a);
}
#define LOG_2 0x1.62e42fefa39efp-1
OWN double __q_own_asinh(double a) {
    double m = ABS(a);
    if (!(m < INFINITE) || m < 0x1p-28) return a;
    double r = m > 0x1p28 ? __q_own_log(m) + LOG_2 : __q_own_log1p(m + m * m / (1.0 + ROOT(FMA(m, m, 1.0))));
    return SIGN_OF(r, a);
}
OWN double __q_own_acosh(double a) {
    if (!(a < INFINITE)) return a;
    if (a < 1.0) return NO_NUMBER;
    double t = a - 1.0;
    return a > 0x1p28 ? __q_own_log(a) + LOG_2 : a > 2.0 ? __q_own_log(2.0 * a - 1.0 / (a + ROOT(FMA(a, a, -1.0))))
        : __q_own_log1p(t + ROOT(FMA(t, t, 2.0 * t)));
}
OWN double __q_own_atanh(double a) {
    double m = ABS(a);
    if (m > 1.0 || a != a) return NO_NUMBER;
    if (m < 0x1p-28) return a;
    double r = m < 0.5 ? 2.0 * m + 2.0 * m * m / (1.0 - m) : 2.0 * m / (1.0 - m);
    return SIGN_OF(m == 1.0 ? INFINITE : 0.5 * __q_own_log1p(r), a);
}

// Halley's method, from a third of the exponent on.
OWN double __q_own_cbrt(double a) {
    double m = ABS(a);
    if (m == 0.0 || !(m < INFINITE)) return a;
    // A cube and twice the number are far from the largest and the smallest numbers then.
    double by = m < 0x1p-900 ? 0x1p162 : m > 0x1p900 ? 0x1p-162 : 1.0, back = m < 0x1p-900 ? 0x1p-54 : m > 0x1p900 ? 0x1p54 : 1.0;
    m *= by;
    double r = __q_number(__q_bits_of(m) / 3 + 0x2a9f7893782da1cel);
    for (int i = 0; i < 3; i++) {
        double cube = r * r * r;
        r = r * ((cube + m + m) / (cube + cube + m));
    }
    double square = r * r;
    r = r - FMA(r, square, -m) / (3.0 * square);
    return SIGN_OF(r * back, a);
}
OWN double __q_own_hypot(double a, double b) {
    a = ABS(a);
    b = ABS(b);
    if (a == INFINITE || b == INFINITE) return INFINITE;
    double most = a > b ? a : b, by = most > 0x1p500 ? 0x1p-600 : most < 0x1p-450 ? 0x1p600 : 1.0;
    a *= by;
    b *= by;
    return ROOT(FMA(a, a, b * b)) / by;
}

OWN double __q_own_fdim(double a, double b) { return a != a || b != b ? a + b : a > b ? a - b : 0.0; }
// In steps of 11 bits of the quotient.
OWN double __q_own_fmod(double a, double b) {
    double m = ABS(a), d = ABS(b);
    if (a != a || b != b || m == INFINITE || d == 0.0) return NO_NUMBER;
    if (m < d) return a;
    int of_m, of_d;
    unsigned long r = (unsigned long)(__q_taken_apart(m, &of_m) * 0x1p53), by = (unsigned long)(__q_taken_apart(d, &of_d) * 0x1p53);
    int more = of_m - of_d;
    r %= by;
    while (more > 0 && r != 0) {
        int step = more < 11 ? more : 11;
        r = (r << step) % by;
        more -= step;
    }
    return SIGN_OF(__q_shifted((double)r, of_d - 53), a);
}
OWN double __q_own_remainder(double a, double b) {
    double d = ABS(b);
    if (a != a || b != b || ABS(a) == INFINITE || d == 0.0) return NO_NUMBER;
    double r = ABS(d <= 0x1p1022 ? __q_own_fmod(a, d + d) : a);
    // The test that is exact: doubling small numbers, halving large ones.
    if (d < 0x1p-1020) {
        if (r + r > d) { r -= d; if (r + r >= d) r -= d; }
    } else if (r > 0.5 * d) {
        r -= d;
        if (r >= 0.5 * d) r -= d;
    }
    return __q_bits_of(a) < 0 ? -r : r;
}
OWN double __q_own_nextafter(double a, double b) {
    if (a != a || b != b) return a + b;
    if (a == b) return b;
    if (a == 0.0) return SIGN_OF(0x1p-1074, b);
    return __q_number(__q_bits_of(a) + ((a < b) == (a > 0.0) ? 1 : -1));
}
OWN int __q_own_ilogb(double a) {
    if (a == 0.0) return -2147483647 - 1;
    if (!(ABS(a) < INFINITE)) return 2147483647;
    int n;
    __q_taken_apart(a, &n);
    return n - 1;
}
OWN double __q_own_logb(double a) { return a == 0.0 ? -INFINITE : ABS(a) < INFINITE ? (double)__q_own_ilogb(a) : a * a; }
OWN double __q_own_ldexp(double a, int n) { return __q_shifted(a, n); }
OWN double __q_own_frexp(double a, int *n) {
    *n = 0;
    return a == 0.0 || !(ABS(a) < INFINITE) ? a : __q_taken_apart(a, n);
}

OWN double __q_own_erfc(double a) {
    double m = ABS(a);
    if (a != a) return a;
    if (m < 1.0) {
        double z = m * m;
    double p = -0x1.29b9f1b3df556p-38;
    NEXT(0x1.7f072188e194dp-34) NEXT(-0x1.4e607b41a6416p-30) NEXT(0x1.fc4356498c2d9p-27) NEXT(-0x1.5f6d925a0bc7ap-23)
    NEXT(0x1.b9e6509b9867dp-20) NEXT(-0x1.f4d2561aeafd4p-17) NEXT(0x1.f9a326c233146p-14) NEXT(-0x1.c02db3feeb579p-11)
    NEXT(0x1.565bcd0e6502dp-8) NEXT(-0x1.b82ce312889bap-6) NEXT(0x1.ce2f21a042bdep-4) NEXT(-0x1.812746b0379e7p-2)
    NEXT(0x1.06eba8214db69p-3)
        return a < 0.5 ? 1.0 - (a + a * p) : 0.5 - ((a - 0.5) + a * p);
    }
    if (m > 27.5) return a > 0.0 ? 0.0 : 2.0;
    double z = (m - 4.0) / (m + 4.0);
    double p = -0x1.c46a76504213p-26;
    NEXT(0x1.80d5ac30c117ep-24) NEXT(0x1.91f07a8b324a6p-24) NEXT(-0x1.b465710309ef6p-21) NEXT(0x1.2a8e1c98fcd68p-22)
    NEXT(0x1.7eea1607b7654p-18) NEXT(-0x1.784fab03e2498p-17) NEXT(-0x1.995792a4899f5p-16) NEXT(0x1.3bdf5df880fe2p-13)
    NEXT(-0x1.a1df1dbf4137fp-13) NEXT(-0x1.8d4a90d761284p-11) NEXT(0x1.49c6726dad164p-8) NEXT(-0x1.0962388c3eda1p-6)
    NEXT(0x1.3079edf6e2f83p-5) NEXT(-0x1.0fb06dfe2f131p-4) NEXT(0x1.7fee004e0f9d3p-4) NEXT(-0x1.9ddb23c3e9d13p-4)
    NEXT(0x1.16ecefcfa549ep-4) NEXT(0x1.f7f5df66fd8dap-7) NEXT(-0x1.1df1ad154a28fp-3) NEXT(0x1.3ba5916e9fd7fp+0)
    __q_pair square = __q_product(m, m);
    double r = __q_exp_of(-square.high, -square.low, p / FMA(2.0, m, 1.0));
    return a > 0.0 ? r : 2.0 - r;
}
OWN double __q_own_erf(double a) {
    double m = ABS(a);
    if (a != a) return a;
    if (m >= 1.0) return SIGN_OF(m > 6.0 ? 1.0 : 1.0 - __q_own_erfc(m), a);
    double z = m * m;
    double p = -0x1.29b9f1b3df556p-38;
    NEXT(0x1.7f072188e194dp-34) NEXT(-0x1.4e607b41a6416p-30) NEXT(0x1.fc4356498c2d9p-27) NEXT(-0x1.5f6d925a0bc7ap-23)
    NEXT(0x1.b9e6509b9867dp-20) NEXT(-0x1.f4d2561aeafd4p-17) NEXT(0x1.f9a326c233146p-14) NEXT(-0x1.c02db3feeb579p-11)
    NEXT(0x1.565bcd0e6502dp-8) NEXT(-0x1.b82ce312889bap-6) NEXT(0x1.ce2f21a042bdep-4) NEXT(-0x1.812746b0379e7p-2)
    NEXT(0x1.06eba8214db69p-3)
    return a + a * p;
}

// log(gamma(a)) for 10 and more, as a sum of two (Stirling's series).
OWN __q_pair __q_log_gamma_far(double a) {
    __q_pair l = __q_log_pair(a);
    double inverse = 1.0 / a, z = inverse * inverse;
    double p = -0x1.8003f37c6b59p-6;
    NEXT(0x1.9de6805b89f6fp-8) NEXT(-0x1.f676480bf1c19p-10) NEXT(0x1.b95164c90e394p-11) NEXT(-0x1.381380e5fe9d7p-11)
    NEXT(0x1.a01a019fffa0ap-11) NEXT(-0x1.6c16c16c16c0ap-9) NEXT(0x1.5555555555555p-4)
    l = __q_by(l, a - 0.5, 0.0);
    __q_pair s = __q_sum(l.high, -a), t = __q_sum(s.high, 0x1.d67f1c864beb5p-1);
    return __q_settled(t.high, FMA(inverse, p, l.low + s.low + t.low));
}
// gamma(a) for 0 < a < 10.
OWN double __q_gamma_near(double a) {
    double up = 1.0, down = 1.0;
    if (a < 1.0) { down = a; a += 1.0; }
    while (a > 2.0) { a -= 1.0; up *= a; }
    double z = a - 1.5;
    double p = 0x1.21263fe0d7581p-26;
    NEXT(-0x1.82a4ea6702998p-24) NEXT(0x1.f2ae41d5b51adp-25) NEXT(0x1.2172c2ddcbee9p-19) NEXT(-0x1.d24cdaed928e6p-17)
    NEXT(0x1.a96374da02946p-16) NEXT(0x1.3f84605541cc3p-13) NEXT(-0x1.232bd852d67ecp-10) NEXT(0x1.15f7f0609c138p-9)
    NEXT(0x1.b16203e548491p-8) NEXT(-0x1.5955cc3972186p-5) NEXT(0x1.a18540be33653p-5) NEXT(0x1.669be41a93892p-3)
    NEXT(-0x1.0da5a671c048cp-1) NEXT(-0x1.514d3d90584b3p-5) NEXT(0x1.20dd750429b6dp+0)
    return up / (down * p);
}
OWN double __q_own_tgamma(double a) {
    double m = ABS(a);
    if (a == 0.0) return 1.0 / a;
    if (a != a || a == INFINITE) return a;
    if (a < 0.0 && a == NEAREST(a)) return NO_NUMBER;
    if (m < 0x1p-60) return 1.0 / a;
    if (a > 172.0) return INFINITE;
    if (a < -200.0) return SIGN_OF(0.0, __q_sine_of_half_turns(a));
    if (a > 0.0) {
        if (m < 10.0) return __q_gamma_near(a);
        __q_pair l = __q_log_gamma_far(a);
        return __q_exp_of(l.high, l.low, 1.0);
    }
    // gamma(a) * gamma(-a) = -pi / (a * sin(pi * a))
    double factor = -0x1.921fb54442d18p+1 / (a * __q_sine_of_half_turns(a));
    if (m < 10.0) return factor / __q_gamma_near(m);
    __q_pair l = __q_log_gamma_far(m);
    return __q_exp_of(-l.high, -l.low, factor);
}
// log(gamma(a)) for numbers above zero.
OWN double __q_log_gamma(double a) {
    if (a >= 0x1p60) return a * (__q_own_log(a) - 1.0);
    if (a >= 10.0) return __q_log_gamma_far(a).high;
    if (a > 3.0) return __q_own_log(__q_gamma_near(a));
    double more = a < 1.0 ? -__q_own_log(a) : a > 2.0 ? __q_own_log1p(a - 2.0) : 0.0;
    double down = a < 1.0 ? 0.0 : a > 2.0 ? 2.0 : 1.0, z = a - (down + 0.5);
    double p = -0x1.0467902760469p-17;
    NEXT(0x1.9759e019683dp-17) NEXT(-0x1.18598e23bb974p-17) NEXT(0x1.ba730a9784e07p-17) NEXT(-0x1.c85e4bc95846cp-16)
    NEXT(0x1.68f13e0fbb796p-15) NEXT(-0x1.156abea920aefp-14) NEXT(0x1.b9e43433855c2p-14) NEXT(-0x1.623f109df00eep-13)
    NEXT(0x1.1c7e3a261c9ebp-12) NEXT(-0x1.cb44dee9facp-12) NEXT(0x1.750a7900f071ep-11) NEXT(-0x1.313e8a3ddad6fp-10)
    NEXT(0x1.f814bab49d011p-10) NEXT(-0x1.a5035232a7d25p-9) NEXT(0x1.64f0664c4f943p-8) NEXT(-0x1.34dbda14971e2p-7)
    NEXT(0x1.133423527f1f2p-6) NEXT(-0x1.007aa83cee1acp-5) NEXT(0x1.01af62a2929cp-4) NEXT(-0x1.2aed059bd608ap-3)
    NEXT(0x1.eeb95b094c191p-2)
    return FMA((a - down) * (a - (down + 1.0)), p, more);
}
OWN double __q_own_lgamma_r(double a, int *sign) {
    double m = ABS(a);
    *sign = __q_bits_of(a) < 0 && a == 0.0 ? -1 : 1;
    if (!(m < INFINITE)) return a * a;
    if (m == 0.0 || (a < 0.0 && a == NEAREST(a))) return INFINITE;
    if (a > 0.0) return __q_log_gamma(a);
    if (m < 0x1p-60) { *sign = -1; return -__q_own_log(m); }
    double s = __q_sine_of_half_turns(a);
    *sign = s < 0.0 ? -1 : 1;
    return __q_own_log(0x1.921fb54442d18p+1 / ABS(a * s)) - __q_log_gamma(m);
}
OWN double __q_own_lgamma(double a) { int sign; return __q_own_lgamma_r(a, &sign); }

// The names by which they are called.
#define NAMED(R, name, symbol, parameters, result) \
    R __q_for_##name parameters __asm__("quipu.math." symbol); \
    R __q_for_##name parameters { return result; }
#define SYSTEM1(name) \
    NAMED(double, d_##name, #name, (double a), __q_own_##name(a)) NAMED(float, f_##name, #name "f", (float a), (float)__q_own_##name(a))
#define SYSTEM2(name) \
    NAMED(double, d_##name, #name, (double a, double b), __q_own_##name(a, b)) \
    NAMED(float, f_##name, #name "f", (float a, float b), (float)__q_own_##name(a, b))
SYSTEM1(sin) SYSTEM1(cos) SYSTEM1(tan) SYSTEM1(asin) SYSTEM1(acos) SYSTEM1(atan) SYSTEM1(sinh) SYSTEM1(cosh) SYSTEM1(tanh)
SYSTEM1(asinh) SYSTEM1(acosh) SYSTEM1(atanh) SYSTEM1(exp) SYSTEM1(exp2) SYSTEM1(exp10) SYSTEM1(expm1)
SYSTEM1(log) SYSTEM1(log2) SYSTEM1(log10) SYSTEM1(log1p) SYSTEM1(logb) SYSTEM1(cbrt) SYSTEM1(erf) SYSTEM1(erfc)
SYSTEM1(tgamma) SYSTEM1(lgamma)
SYSTEM2(pow) SYSTEM2(atan2) SYSTEM2(fmod) SYSTEM2(remainder) SYSTEM2(hypot) SYSTEM2(fdim)
#define WITH_WHOLE(name, of) \
    NAMED(double, d_##name, #name, (double a, int n), __q_own_##of(a, n)) \
    NAMED(float, f_##name, #name "f", (float a, int n), (float)__q_own_##of(a, n))
WITH_WHOLE(ldexp, ldexp) WITH_WHOLE(powi, powi)
NAMED(double, d_frexp, "frexp", (double a, int *n), __q_own_frexp(a, n))
NAMED(float, f_frexp, "frexpf", (float a, int *n), (float)__q_own_frexp(a, n))
NAMED(double, d_lgamma_r, "lgamma_r", (double a, int *n), __q_own_lgamma_r(a, n))
NAMED(float, f_lgamma_r, "lgammaf_r", (float a, int *n), (float)__q_own_lgamma_r(a, n))
NAMED(int, d_ilogb, "ilogb", (double a), __q_own_ilogb(a))
NAMED(int, f_ilogb, "ilogbf", (float a), __q_own_ilogb(a))
NAMED(double, d_nextafter, "nextafter", (double a, double b), __q_own_nextafter(a, b))
// A neighbour of a `float` is one of `float`.
OWN float __q_neighbour(float a, float b) {
    union { float f; int i; } u;
    if (a != a || b != b) return a + b;
    if (a == b) return b;
    u.f = a;
    if (a == 0.0f) { u.i = 1; return SIGN_OF(u.f, b); }
    u.i += (a < b) == (a > 0.0f) ? 1 : -1;
    return u.f;
}
NAMED(float, f_nextafter, "nextafterf", (float a, float b), __q_neighbour(a, b))
#endif
