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

extern "C" __global__ void classify(
    const int *__restrict__ x,
    unsigned int x_length,
    int *y,
    unsigned int y_length,
    quipu_launch launch,
    unsigned int *fault)
{
    quipu_context context;
    const quipu_context *quipu = &context;
    context.launch = launch;
    context.fault = fault;
    context.thread[0] = (unsigned int)threadIdx.x;
    for (context.block[0] = (unsigned int)blockIdx.x; context.block[0] < launch.grid_blocks[0]; context.block[0] += (unsigned int)gridDim.x) {
        for (unsigned int i = quipu_thread(quipu, 0); i < y_length; i += quipu_threads(quipu, 0)) {
#line 30 "src/kernels.rs"
            const int x_2 = quipu_in(quipu, i, x_length, 0) ? x[i] : 0;
            int t1;
#line 30 "src/kernels.rs"
            if (x_2 == 0) {
#line 30 "src/kernels.rs"
                t1 = 10;
            } else if (x_2 >= 1 && x_2 <= 9) {
#line 30 "src/kernels.rs"
                t1 = 20;
            } else if (x_2 == (-2147483647 - 1)) {
#line 30 "src/kernels.rs"
                t1 = 30;
            } else {
#line 30 "src/kernels.rs"
                t1 = (int)-(((unsigned int)x_2 + x_2) * 3);
            }
#line 30 "src/kernels.rs"
            y[i] = t1;
        }
    }
}
