/* OpenCL C, printed by Quipu. */

#pragma OPENCL FP_CONTRACT OFF

/* The work division of a launch. */
typedef struct {
    uint grid_blocks[1];
    uint block_threads[1];
    uint thread_elements[1];
} quipu_launch;

/* Where a thread is. */
typedef struct {
    quipu_launch launch;
    uint block[1];
    uint thread[1];
    __global uint *fault;
    __local float *partial;
    uint partial_length;
} quipu_context;

/* Records the first fault of a launch. */
static void quipu_record(__global uint *fault, ulong thread, ulong index, ulong length, uint site)
{
    if (fault[0] == 0 && atomic_cmpxchg(fault, 0u, site + 1) == 0) {
        fault[2] = (uint)thread;
        fault[3] = (uint)(thread >> 32);
        fault[4] = (uint)index;
        fault[5] = (uint)(index >> 32);
        fault[6] = (uint)length;
        fault[7] = (uint)(length >> 32);
    }
}

static inline void quipu_fault(__private const quipu_context *quipu, ulong index, ulong length, uint site)
{
    quipu_record(quipu->fault, ((ulong)quipu->block[0] * quipu->launch.block_threads[0] + quipu->thread[0]), index, length, site);
}

/* True if an index is in bounds; if not, a fault is recorded. */
static inline bool quipu_in(__private const quipu_context *quipu, uint index, uint length, uint site)
{
    if (index < length)
        return true;
    quipu_fault(quipu, index, length, site);
    return false;
}

__kernel void block_sum(
    __global const float *restrict x,
    ulong x_start,
    uint x_length,
    __global float *sums,
    ulong sums_start,
    uint sums_length,
    __local float *partial,
    uint partial_length,
    quipu_launch launch,
    __global uint *fault)
{
    x += x_start;
    sums += sums_start;
    quipu_context context;
    __private const quipu_context *quipu = &context;
    context.launch = launch;
    context.fault = fault;
    context.partial = partial;
    context.partial_length = partial_length;
    context.thread[0] = (uint)get_local_id(0);
    context.block[0] = (uint)(get_global_offset(0) / get_local_size(0) + get_group_id(0));
    for (uint quipu_at = context.thread[0]; quipu_at < partial_length; quipu_at += launch.block_threads[0])
        partial[quipu_at] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const uint thread = quipu->thread[0];
    const uint t1 = quipu->block[0] * quipu->launch.block_threads[0] + quipu->thread[0];
#line 10 "src/kernels.rs"
    const float t2 = quipu_in(quipu, t1, x_length, 0) ? x[t1] : 0.0f;
#line 10 "src/kernels.rs"
    if (quipu_in(quipu, thread, partial_length, 1))
        partial[thread] = t2;
#line 10 "src/kernels.rs"
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#line 10 "src/kernels.rs"
    uint distance_2 = quipu->launch.block_threads[0] / 2u;
#line 10 "src/kernels.rs"
    while (distance_2 > 0u) {
#line 13 "src/kernels.rs"
        if (thread < distance_2) {
            const uint t3 = thread + distance_2;
#line 14 "src/kernels.rs"
            const float t4 = quipu_in(quipu, thread, partial_length, 2) ? partial[thread] : 0.0f;
#line 14 "src/kernels.rs"
            const float t5 = t4 + (quipu_in(quipu, t3, partial_length, 2) ? partial[t3] : 0.0f);
#line 14 "src/kernels.rs"
            if (quipu_in(quipu, thread, partial_length, 3))
                partial[thread] = t5;
        }
#line 14 "src/kernels.rs"
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#line 14 "src/kernels.rs"
        distance_2 = distance_2 / 2u;
    }
#line 14 "src/kernels.rs"
    if (thread == 0u) {
#line 20 "src/kernels.rs"
        const float t6 = quipu_in(quipu, 0u, partial_length, 4) ? partial[0u] : 0.0f;
#line 20 "src/kernels.rs"
        const uint t7 = quipu->block[0];
#line 20 "src/kernels.rs"
        if (quipu_in(quipu, t7, sums_length, 5))
            sums[t7] = t6;
    }
}
