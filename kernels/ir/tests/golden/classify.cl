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
} quipu_context;

/* The number of a thread in the grid, along a dimension. */
static inline uint quipu_thread(__private const quipu_context *quipu, int d)
{
    return quipu->block[d] * quipu->launch.block_threads[d] + quipu->thread[d];
}

/* The number of threads in the grid, along a dimension. */
static inline uint quipu_threads(__private const quipu_context *quipu, int d)
{
    return quipu->launch.grid_blocks[d] * quipu->launch.block_threads[d];
}

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

__kernel void classify(
    __global const int *restrict x,
    ulong x_start,
    uint x_length,
    __global int *y,
    ulong y_start,
    uint y_length,
    quipu_launch launch,
    __global uint *fault)
{
    x += x_start;
    y += y_start;
    quipu_context context;
    __private const quipu_context *quipu = &context;
    context.launch = launch;
    context.fault = fault;
    context.thread[0] = (uint)get_local_id(0);
    context.block[0] = (uint)(get_global_offset(0) / get_local_size(0) + get_group_id(0));
    {
        const uint t1 = quipu_threads(quipu, 0);
        uint i = quipu_thread(quipu, 0);
        if (((ulong)y_length - 1) < x_length) {
            for (; i + (ulong)t1 * 3 < y_length; i += t1 * 4) {
                for (uint t2 = 0; t2 < 4; t2++) {
                    const uint i_2 = i + t1 * t2;
#line 30 "src/kernels.rs"
                    const int x_2 = x[i_2];
                    int t3;
#line 30 "src/kernels.rs"
                    if (x_2 == 0) {
#line 30 "src/kernels.rs"
                        t3 = 10;
                    } else if (x_2 >= 1 && x_2 <= 9) {
#line 30 "src/kernels.rs"
                        t3 = 20;
                    } else if (x_2 == (-2147483647 - 1)) {
#line 30 "src/kernels.rs"
                        t3 = 30;
                    } else {
#line 30 "src/kernels.rs"
                        t3 = (int)-(((uint)x_2 + x_2) * 3);
                    }
#line 30 "src/kernels.rs"
                    y[i_2] = t3;
                }
            }
        }
        for (; i < y_length; i += t1) {
#line 30 "src/kernels.rs"
            const int x_3 = quipu_in(quipu, i, x_length, 0) ? x[i] : 0;
            int t4;
#line 30 "src/kernels.rs"
            if (x_3 == 0) {
#line 30 "src/kernels.rs"
                t4 = 10;
            } else if (x_3 >= 1 && x_3 <= 9) {
#line 30 "src/kernels.rs"
                t4 = 20;
            } else if (x_3 == (-2147483647 - 1)) {
#line 30 "src/kernels.rs"
                t4 = 30;
            } else {
#line 30 "src/kernels.rs"
                t4 = (int)-(((uint)x_3 + x_3) * 3);
            }
#line 30 "src/kernels.rs"
            y[i] = t4;
        }
    }
}
