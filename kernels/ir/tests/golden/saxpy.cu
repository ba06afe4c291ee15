/* CUDA C, printed by Quipu. */

/* The work division of a launch. */
typedef struct {
    unsigned int grid_blocks[1];
    unsigned int block_threads[1];
    unsigned int thread_elements[1];
} quipu_launch;

/* Where a thread is. */
typedef struct {
    quipu_launch launch;
    unsigned int block[1];
    unsigned int thread[1];
    unsigned int *fault;
} quipu_context;

/* The number of a thread in the grid, along a dimension. */
static __device__ __forceinline__ unsigned int quipu_thread(const quipu_context *quipu, int d)
{
    return quipu->block[d] * quipu->launch.block_threads[d] + quipu->thread[d];
}

/* The number of threads in the grid, along a dimension. */
static __device__ __forceinline__ unsigned int quipu_threads(const quipu_context *quipu, int d)
{
    return quipu->launch.grid_blocks[d] * quipu->launch.block_threads[d];
}

/* Records the first fault of a launch. */
static __device__ __forceinline__ void quipu_record(unsigned int *fault, unsigned long long thread, unsigned long long index, unsigned long long length, unsigned int site)
{
    if (fault[0] == 0 && atomicCAS(fault, 0u, site + 1) == 0) {
        fault[2] = (unsigned int)thread;
        fault[3] = (unsigned int)(thread >> 32);
        fault[4] = (unsigned int)index;
        fault[5] = (unsigned int)(index >> 32);
        fault[6] = (unsigned int)length;
        fault[7] = (unsigned int)(length >> 32);
        __threadfence_system();
    }
}

static __device__ __forceinline__ void quipu_fault(const quipu_context *quipu, unsigned long long index, unsigned long long length, unsigned int site)
{
    quipu_record(quipu->fault, ((unsigned long long)quipu->block[0] * quipu->launch.block_threads[0] + quipu->thread[0]), index, length, site);
}

/* True if an index is in bounds; if not, a fault is recorded. */
static __device__ __forceinline__ bool quipu_in(const quipu_context *quipu, unsigned int index, unsigned int length, unsigned int site)
{
    if (index < length)
        return true;
    quipu_fault(quipu, index, length, site);
    return false;
}

extern "C" __global__ void saxpy(
    float a,
    const float *__restrict__ x,
    unsigned int x_length,
    float *y,
    unsigned int y_length,
    quipu_launch launch,
    unsigned int *fault)
{
    quipu_context context;
    const quipu_context *quipu = &context;
    context.launch = launch;
    context.fault = fault;
    context.thread[0] = (unsigned int)threadIdx.x;
    context.block[0] = (unsigned int)blockIdx.x;
    {
        const unsigned int t1 = quipu_threads(quipu, 0);
        unsigned int i = quipu_thread(quipu, 0);
        if (((unsigned long long)y_length - 1) < x_length) {
            for (; i + (unsigned long long)t1 * 3 < y_length; i += t1 * 4) {
                #pragma unroll
                for (unsigned int t2 = 0; t2 < 4; t2++) {
                    const unsigned int i_2 = i + t1 * t2;
#line 4 "src/kernels.rs"
                    y[i_2] = y[i_2] + a * x[i_2];
                }
            }
        }
        for (; i < y_length; i += t1) {
#line 4 "src/kernels.rs"
            y[i] = y[i] + a * (quipu_in(quipu, i, x_length, 0) ? x[i] : 0.0f);
        }
    }
}
