// Kernels that the test of SPIR-V runs from this text and from kernels.spvasm, which was made of it: with clang 15
// (-x cl -cl-std=CL2.0 -target spir64 -O0 -fno-discard-value-names), llvm-spirv 15 and spirv-dis.

typedef struct {
    int factor;
    float4 added;
} Settings;

constant float weights[4] = {0.25f, 0.5f, 1.0f, 2.0f};

float weighted(global const float *x, size_t i) { return x[i] * weights[i & 3]; }

kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void sums(global const float *restrict x, global float *to, local float *part, const Settings settings) {
    size_t l = get_local_id(0);
    part[l] = weighted(x, get_global_id(0)) * settings.factor;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t s = get_local_size(0) / 2; s > 0; s /= 2) {
        if (l < s)
            part[l] += part[l + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0)
        to[get_group_id(0)] = part[0] + settings.added.y;
}

kernel void mathematics(global const float4 *x, global float4 *to) {
    size_t i = get_global_id(0);
    float4 a = x[i];
    float whole;
    int power;
    float4 r = sqrt(fabs(a)) + fma(a, a, (float4)(0.5f)) + exp2(a) * sin(a);
    r += clamp(a, -0.5f, 0.5f) + mix(a, r, 0.25f) + fmax(a, a.wzyx) + step(0.0f, a) + sign(a);
    r.x += dot(a, r) + length(a.xyz) + distance(a.xy, a.zw);
    r.y += modf(a.y, &whole) + whole;
    r.z += frexp(a.z, &power) + power;
    r.w += isnan(a.w) + signbit(a.w) + select(1.0f, 2.0f, isgreater(a.x, a.y));
    r += native_exp(a) + pown(a, 3) + normalize(a) + cross(a, a.yzxw);
    r.xy += vload2(0, (global const float *)(x + i));
    vstore4(r, i, (global float *)to);
}

kernel void integers(global const int4 *x, global int4 *to) {
    size_t i = get_global_id(0);
    int4 a = x[i];
    uint4 u = as_uint4(a);
    int4 r = abs_diff(a, a.yzwx) > 7 ? a : -a;
    r += convert_int4(popcount(u)) + convert_int4(clz(u)) + rotate(a, (int4)(5)) + mul_hi(a, a.wzyx);
    r += min(a, 9) + max(a, a.zwxy) + mad24(a & 0xffff, (int4)(3), a) + convert_int4(add_sat(u, u.wzyx));
    r += convert_int4(convert_uchar4_sat(a)) + convert_int4_rtz(convert_float4(a) * 0.37f);
    r.x += any(a > 3) + all(a != 0) + upsample((short)a.x, (ushort)a.y) + (int)hadd(a.x, a.y) + (a.x % 7) + (a.y / 3);
    r.y += (int)(convert_long_rte(convert_double(a.y) * 1.5) >> 1);
    r.z += shuffle(a, (uint4)(3, 2, 1, 0)).x;
    to[i] = r;
}

kernel void counts(global const int *x, global int *bins, global long *sum, global uint *most) {
    local int own[8];
    size_t l = get_local_id(0);
    if (l < 8)
        own[l] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_inc(&own[x[get_global_id(0)] & 7]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < 8) {
        atomic_add(&bins[l], own[l]);
        atom_add(sum, (long)own[l] << 33);
        atomic_max(most, (uint)own[l]);
        atomic_cmpxchg(&bins[8], 0, 5);
        atomic_xchg(&bins[9], 11);
        atomic_fetch_or_explicit((volatile global atomic_int *)&bins[10], 1 << l, memory_order_relaxed, memory_scope_device);
        int seen = 0;
        if (!atomic_compare_exchange_strong((volatile global atomic_int *)&bins[11], &seen, 2))
            bins[12] = seen;
    }
}

kernel void copies(global const float *x, global float *to, local float *own) {
    event_t event = async_work_group_copy(own, x + get_group_id(0) * 8, 8, 0);
    wait_group_events(1, &event);
    size_t l = get_local_id(0);
    float sum = own[l] + own[7 - l];
    barrier(CLK_LOCAL_MEM_FENCE);
    own[l] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    event = async_work_group_strided_copy(to + get_group_id(0) * 16, own, 8, 2, 0);
    wait_group_events(1, &event);
}

kernel void prints(global const int *x) {
    printf("%d|%5.2f|%v4d|%s|%ld\n", x[0], 1.5f, (int4)(1, 2, 3, x[1]), "text", 1L << 40);
}
