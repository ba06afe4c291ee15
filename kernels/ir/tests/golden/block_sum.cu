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
    float *partial;
    unsigned int partial_length;
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

extern "C" __global__ void block_sum(
    const float *__restrict__ x,
    unsigned int x_length,
    float *sums,
    unsigned int sums_length,
    unsigned int partial_offset,
    unsigned int partial_length,
    quipu_launch launch,
    unsigned int *fault)
{
    extern __shared__ __align__(16) unsigned char quipu_dynamic[];
    float *const partial = (float *)(quipu_dynamic + partial_offset);
    quipu_context context;
    const quipu_context *quipu = &context;
    context.launch = launch;
    context.fault = fault;
    context.partial = partial;
    context.partial_length = partial_length;
    context.thread[0] = (unsigned int)threadIdx.x;
    context.block[0] = (unsigned int)blockIdx.x;
    for (unsigned int quipu_at = context.thread[0]; quipu_at < partial_length; quipu_at += launch.block_threads[0])
        partial[quipu_at] = 0.0f;
    __syncthreads();
    const unsigned int thread = quipu->thread[0];
    const unsigned int t1 = quipu->block[0] * quipu->launch.block_threads[0] + quipu->thread[0];
#line 10 "src/kernels.rs"
    const float t2 = quipu_in(quipu, t1, x_length, 0) ? x[t1] : 0.0f;
#line 10 "src/kernels.rs"
    if (quipu_in(quipu, thread, partial_length, 1))
        partial[thread] = t2;
#line 10 "src/kernels.rs"
    __syncthreads();
#line 10 "src/kernels.rs"
    unsigned int distance_2 = quipu->launch.block_threads[0] / 2u;
#line 10 "src/kernels.rs"
    while (distance_2 > 0u) {
#line 13 "src/kernels.rs"
        if (thread < distance_2) {
            const unsigned int t3 = thread + distance_2;
#line 14 "src/kernels.rs"
            const float t4 = quipu_in(quipu, thread, partial_length, 2) ? partial[thread] : 0.0f;
#line 14 "src/kernels.rs"
            const float t5 = t4 + (quipu_in(quipu, t3, partial_length, 2) ? partial[t3] : 0.0f);
#line 14 "src/kernels.rs"
            if (quipu_in(quipu, thread, partial_length, 3))
                partial[thread] = t5;
        }
#line 14 "src/kernels.rs"
        __syncthreads();
#line 14 "src/kernels.rs"
        distance_2 = distance_2 / 2u;
    }
#line 14 "src/kernels.rs"
    if (thread == 0u) {
#line 20 "src/kernels.rs"
        const float t6 = quipu_in(quipu, 0u, partial_length, 4) ? partial[0u] : 0.0f;
#line 20 "src/kernels.rs"
        const unsigned int t7 = quipu->block[0];
#line 20 "src/kernels.rs"
        if (quipu_in(quipu, t7, sums_length, 5))
            sums[t7] = t6;
    }
}
