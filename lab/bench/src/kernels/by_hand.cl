// The kernels of `mod.rs`, written by hand in OpenCL C: the same algorithms, with what a programmer knows of the sizes.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

kernel void saxpy(float a, global const float *x, global float *y, uint n) {
    size_t i = get_global_id(0);
    if (i < n) y[i] += a * x[i];
}

// BabelStream's five, of a type T.
#define STREAM(T, NAME)                                                                                            \
    kernel void copy_##NAME(global const T *a, global T *c, uint n) {                                              \
        size_t i = get_global_id(0);                                                                               \
        if (i < n) c[i] = a[i];                                                                                    \
    }                                                                                                              \
    kernel void mul_##NAME(T scalar, global const T *c, global T *b, uint n) {                                     \
        size_t i = get_global_id(0);                                                                               \
        if (i < n) b[i] = scalar * c[i];                                                                           \
    }                                                                                                              \
    kernel void add_##NAME(global const T *a, global const T *b, global T *c, uint n) {                            \
        size_t i = get_global_id(0);                                                                               \
        if (i < n) c[i] = a[i] + b[i];                                                                             \
    }                                                                                                              \
    kernel void triad_##NAME(T scalar, global const T *b, global const T *c, global T *a, uint n) {                \
        size_t i = get_global_id(0);                                                                               \
        if (i < n) a[i] = b[i] + scalar * c[i];                                                                    \
    }                                                                                                              \
    kernel void dot_##NAME(global const T *a, global const T *b, global T *sums, uint n) {                         \
        local T totals[1024];                                                                                      \
        size_t thread = get_local_id(0), threads = get_local_size(0);                                              \
        T sum = 0;                                                                                                 \
        for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) sum += a[i] * b[i];                      \
        totals[thread] = sum;                                                                                      \
        for (size_t half_ = threads / 2; half_ > 0; half_ /= 2) {                                                  \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                          \
            if (thread < half_) totals[thread] += totals[thread + half_];                                          \
        }                                                                                                          \
        if (thread == 0) sums[get_group_id(0)] = totals[0];                                                        \
    }

STREAM(float, f32)
STREAM(double, f64)

kernel void sum(global const float *x, global float *sums, uint n) {
    local float totals[1024];
    size_t thread = get_local_id(0), threads = get_local_size(0);
    float total = 0;
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) total += x[i];
    totals[thread] = total;
    for (size_t half_ = threads / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (thread < half_) totals[thread] += totals[thread + half_];
    }
    if (thread == 0) sums[get_group_id(0)] = totals[0];
}

kernel void pull(float softening, global const float4 *bodies, global float4 *acceleration, uint n) {
    local float4 tile[256];
    size_t thread = get_local_id(0), threads = get_local_size(0);
    float4 body = bodies[get_global_id(0)];
    float3 sum = 0;
    for (uint from = 0; from < n; from += threads) {
        tile[thread] = bodies[from + thread];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < threads; ++k) {
            float4 other = tile[k];
            float x = other.x - body.x, y = other.y - body.y, z = other.z - body.z;
            float inverse = rsqrt(fma(x, x, fma(y, y, fma(z, z, softening))));
            float weight = other.w * (inverse * inverse * inverse);
            sum.x = fma(x, weight, sum.x);
            sum.y = fma(y, weight, sum.y);
            sum.z = fma(z, weight, sum.z);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    acceleration[get_global_id(0)] = (float4)(sum, 0);
}

kernel void escape(float left, float bottom, float step_, uint width, uint limit, global uint *steps, uint n) {
    uint i = get_global_id(0);
    if (i >= n) return;
    float real = fma((float)(i % width), step_, left), imaginary = fma((float)(i / width), step_, bottom);
    float x = 0, y = 0;
    uint count = 0;
    while (count < limit && fma(x, x, y * y) < 4.0f) {
        float next = fma(x, x, fma(-y, y, real));
        y = fma(2 * x, y, imaginary);
        x = next;
        ++count;
    }
    steps[i] = count;
}

// The library's tiled product of n x n matrices, row after row, for n a multiple of 16.
kernel void gemm(uint n, global const float *a, global const float *b, global float *c) {
    local float a_tile[16][16], b_tile[16][16];
    size_t i = get_local_id(1), j = get_local_id(0);
    size_t row = get_global_id(1), column = get_global_id(0);
    float sum = 0;
    for (uint from = 0; from < n; from += 16) {
        a_tile[i][j] = a[row * n + from + j];
        b_tile[i][j] = b[(from + i) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < 16; ++k) sum = fma(a_tile[i][k], b_tile[k][j], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}

// Listing 5.1 of Schupikov, "OpenCL-HPX Integration", 2021: n x n, column after column.
#define MULTIPLY(SIDE)                                                                                             \
    kernel void multiply_##SIDE(uint n, global const float *a, global const float *b, global float *c) {           \
        local float a_block[SIDE][SIDE], b_block[SIDE][SIDE];                                                      \
        size_t row = get_local_id(0), column = get_local_id(1);                                                    \
        size_t down = get_global_id(0), across = get_global_id(1);                                                 \
        float sum = 0;                                                                                             \
        for (uint block = 0; block < n / SIDE; ++block) {                                                          \
            a_block[column][row] = a[(SIDE * block + column) * n + down];                                          \
            b_block[column][row] = b[across * n + SIDE * block + row];                                             \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                          \
            for (uint k = 0; k < SIDE; ++k) sum += a_block[k][row] * b_block[column][k];                           \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                          \
        }                                                                                                          \
        c[across * n + down] = sum;                                                                                \
    }

MULTIPLY(2)
MULTIPLY(4)
MULTIPLY(8)
MULTIPLY(16)
MULTIPLY(32)
MULTIPLY(64)

kernel void converge(uint times, global float *x, uint length) {
#pragma OPENCL FP_CONTRACT OFF
    uint i = get_global_id(0);
    if (i >= length) return;
    float number = 0;
    for (uint time = 0; time < times; ++time) number = 0.5f * number + 1.0f;
    x[i] = number;
}

kernel void add_one(global uint *counter) {
    if (get_global_id(0) == 0) ++*counter;
}

kernel void add_one_slowly(uint times, global uint *counter) {
#pragma OPENCL FP_CONTRACT OFF
    if (get_global_id(0) != 0) return;
    float number = 0;
    for (uint i = 0; i < times; ++i) number = 0.5f * number + 1.0f;
    *counter += (uint)(0.5f * number);
}
