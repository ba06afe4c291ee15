// The kernels of `mod.rs`, written by hand in CUDA C: the same algorithms, with what a programmer knows of the sizes.

typedef unsigned int uint;

// As OpenCL C has it, so that both texts can be read side by side.
__device__ inline uint global_x() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline uint global_y() { return blockIdx.y * blockDim.y + threadIdx.y; }

extern "C" __global__ void saxpy(float a, const float *x, float *y, uint n) {
    size_t i = global_x();
    if (i < n) y[i] += a * x[i];
}

// BabelStream's five, of a type T.
#define STREAM(T, NAME)                                                                                            \
    extern "C" __global__ void copy_##NAME(const T *a, T *c, uint n) {                                             \
        size_t i = global_x();                                                                                     \
        if (i < n) c[i] = a[i];                                                                                    \
    }                                                                                                              \
    extern "C" __global__ void mul_##NAME(T scalar, const T *c, T *b, uint n) {                                    \
        size_t i = global_x();                                                                                     \
        if (i < n) b[i] = scalar * c[i];                                                                           \
    }                                                                                                              \
    extern "C" __global__ void add_##NAME(const T *a, const T *b, T *c, uint n) {                                  \
        size_t i = global_x();                                                                                     \
        if (i < n) c[i] = a[i] + b[i];                                                                             \
    }                                                                                                              \
    extern "C" __global__ void triad_##NAME(T scalar, const T *b, const T *c, T *a, uint n) {                      \
        size_t i = global_x();                                                                                     \
        if (i < n) a[i] = b[i] + scalar * c[i];                                                                    \
    }                                                                                                              \
    extern "C" __global__ void dot_##NAME(const T *a, const T *b, T *sums, uint n) {                               \
        __shared__ T totals[1024];                                                                                 \
        size_t thread = threadIdx.x, threads = blockDim.x;                                                         \
        T sum = 0;                                                                                                 \
        for (size_t i = global_x(); i < n; i += gridDim.x * blockDim.x) sum += a[i] * b[i];                        \
        totals[thread] = sum;                                                                                      \
        for (size_t half_ = threads / 2; half_ > 0; half_ /= 2) {                                                  \
            __syncthreads();                                                                                       \
            if (thread < half_) totals[thread] += totals[thread + half_];                                          \
        }                                                                                                          \
        if (thread == 0) sums[blockIdx.x] = totals[0];                                                             \
    }

STREAM(float, f32)
STREAM(double, f64)

extern "C" __global__ void sum(const float *x, float *sums, uint n) {
    __shared__ float totals[1024];
    size_t thread = threadIdx.x, threads = blockDim.x;
    float total = 0;
    for (size_t i = global_x(); i < n; i += gridDim.x * blockDim.x) total += x[i];
    totals[thread] = total;
    for (size_t half_ = threads / 2; half_ > 0; half_ /= 2) {
        __syncthreads();
        if (thread < half_) totals[thread] += totals[thread + half_];
    }
    if (thread == 0) sums[blockIdx.x] = totals[0];
}

extern "C" __global__ void pull(float softening, const float4 *bodies, float4 *acceleration, uint n) {
    __shared__ float4 tile[256];
    size_t thread = threadIdx.x, threads = blockDim.x;
    float4 body = bodies[global_x()];
    float3 sum = make_float3(0, 0, 0);
    for (uint from = 0; from < n; from += threads) {
        tile[thread] = bodies[from + thread];
        __syncthreads();
        for (uint k = 0; k < threads; ++k) {
            float4 other = tile[k];
            float x = other.x - body.x, y = other.y - body.y, z = other.z - body.z;
            float inverse = rsqrtf(fmaf(x, x, fmaf(y, y, fmaf(z, z, softening))));
            float weight = other.w * (inverse * inverse * inverse);
            sum.x = fmaf(x, weight, sum.x);
            sum.y = fmaf(y, weight, sum.y);
            sum.z = fmaf(z, weight, sum.z);
        }
        __syncthreads();
    }
    acceleration[global_x()] = make_float4(sum.x, sum.y, sum.z, 0);
}

extern "C" __global__ void escape(float left, float bottom, float step_, uint width, uint limit, uint *steps, uint n) {
    uint i = global_x();
    if (i >= n) return;
    float real = fmaf((float)(i % width), step_, left), imaginary = fmaf((float)(i / width), step_, bottom);
    float x = 0, y = 0;
    uint count = 0;
    while (count < limit && fmaf(x, x, y * y) < 4.0f) {
        float next = fmaf(x, x, fmaf(-y, y, real));
        y = fmaf(2 * x, y, imaginary);
        x = next;
        ++count;
    }
    steps[i] = count;
}

// The library's tiled product of n x n matrices, row after row, for n a multiple of 16.
extern "C" __global__ void gemm(uint n, const float *a, const float *b, float *c) {
    __shared__ float a_tile[16][16], b_tile[16][16];
    size_t i = threadIdx.y, j = threadIdx.x;
    size_t row = global_y(), column = global_x();
    float sum = 0;
    for (uint from = 0; from < n; from += 16) {
        a_tile[i][j] = a[row * n + from + j];
        b_tile[i][j] = b[(from + i) * n + column];
        __syncthreads();
        for (uint k = 0; k < 16; ++k) sum = fmaf(a_tile[i][k], b_tile[k][j], sum);
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// Listing 5.1 of Schupikov, "OpenCL-HPX Integration", 2021: n x n, column after column.
#define MULTIPLY(SIDE)                                                                                             \
    extern "C" __global__ void multiply_##SIDE(uint n, const float *a, const float *b, float *c) {                 \
        __shared__ float a_block[SIDE][SIDE], b_block[SIDE][SIDE];                                                 \
        size_t row = threadIdx.x, column = threadIdx.y;                                                            \
        size_t down = global_x(), across = global_y();                                                             \
        float sum = 0;                                                                                             \
        for (uint block = 0; block < n / SIDE; ++block) {                                                          \
            a_block[column][row] = a[(SIDE * block + column) * n + down];                                          \
            b_block[column][row] = b[across * n + SIDE * block + row];                                             \
            __syncthreads();                                                                                       \
            for (uint k = 0; k < SIDE; ++k) sum += a_block[k][row] * b_block[column][k];                           \
            __syncthreads();                                                                                       \
        }                                                                                                          \
        c[across * n + down] = sum;                                                                                \
    }

MULTIPLY(2)
MULTIPLY(4)
MULTIPLY(8)
MULTIPLY(16)
MULTIPLY(32)
MULTIPLY(64)

extern "C" __global__ void converge(uint times, float *x, uint length) {
    uint i = global_x();
    if (i >= length) return;
    float number = 0;
    for (uint time = 0; time < times; ++time) number = __fadd_rn(__fmul_rn(0.5f, number), 1.0f);
    x[i] = number;
}

extern "C" __global__ void add_one(uint *counter) {
    if (global_x() == 0) ++*counter;
}

extern "C" __global__ void add_one_slowly(uint times, uint *counter) {
    if (global_x() != 0) return;
    float number = 0;
    for (uint i = 0; i < times; ++i) number = __fadd_rn(__fmul_rn(0.5f, number), 1.0f);
    *counter += (uint)(0.5f * number);
}
