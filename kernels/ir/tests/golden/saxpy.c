/* C99, printed by Quipu. */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __GNUC__
#pragma STDC FP_CONTRACT OFF
#endif

/* The work division of a launch. */
typedef struct {
    uint32_t grid_blocks[1];
    uint32_t block_threads[1];
    uint32_t thread_elements[1];
} quipu_launch;

/* Where a thread is. */
typedef struct {
    quipu_launch launch;
    uint32_t block[1];
    uint32_t thread[1];
    uint32_t *fault;
    void *const *arguments;
} quipu_context;

/* Records the first fault of a launch. */
static void quipu_record(uint32_t *fault, uint64_t thread, uint64_t index, uint64_t length, uint32_t site)
{
    if (fault[0] == 0 && __sync_bool_compare_and_swap(fault, 0, site + 1)) {
        fault[2] = (uint32_t)thread;
        fault[3] = (uint32_t)(thread >> 32);
        fault[4] = (uint32_t)index;
        fault[5] = (uint32_t)(index >> 32);
        fault[6] = (uint32_t)length;
        fault[7] = (uint32_t)(length >> 32);
    }
}

static inline void quipu_fault(const quipu_context *quipu, uint64_t index, uint64_t length, uint32_t site)
{
    quipu_record(quipu->fault, ((uint64_t)quipu->block[0] * quipu->launch.block_threads[0] + quipu->thread[0]), index, length, site);
}

/* True if an index is in bounds; if not, a fault is recorded. */
static inline bool quipu_in(const quipu_context *quipu, uint32_t index, uint32_t length, uint32_t site)
{
    if (index < length)
        return true;
    quipu_fault(quipu, index, length, site);
    return false;
}

/* The number of a thread in the grid, along a dimension. */
static inline uint32_t quipu_thread(const quipu_context *quipu, int d)
{
    return quipu->block[d] * quipu->launch.block_threads[d] + quipu->thread[d];
}

/* The number of threads in the grid, along a dimension. */
static inline uint32_t quipu_threads(const quipu_context *quipu, int d)
{
    return quipu->launch.grid_blocks[d] * quipu->launch.block_threads[d];
}

/* How many neighbouring positions each thread has, along a dimension. */
static inline uint32_t quipu_share(const quipu_context *quipu, int d, uint32_t extent)
{
    const uint32_t threads = quipu_threads(quipu, d);
    const uint32_t share = extent / threads + (extent % threads != 0);
    return share > quipu->launch.thread_elements[d] ? share : quipu->launch.thread_elements[d];
}

static inline uint32_t quipu_begin(const quipu_context *quipu, int d, uint32_t extent)
{
    const uint32_t at = quipu_thread(quipu, d) * quipu_share(quipu, d, extent);
    return at < extent ? at : extent;
}

static inline uint32_t quipu_end(const quipu_context *quipu, int d, uint32_t extent)
{
    const uint32_t at = (quipu_thread(quipu, d) + 1) * quipu_share(quipu, d, extent);
    return at < extent ? at : extent;
}

/* What a thread does. */
static void quipu_run(const quipu_context *quipu)
{
    const float a = *(const float *)quipu->arguments[0];
    const float *restrict const x = *(const float *const *)quipu->arguments[1];
    const uint32_t x_length = *(const uint32_t *)quipu->arguments[2];
    float *const y = *(float *const *)quipu->arguments[3];
    const uint32_t y_length = *(const uint32_t *)quipu->arguments[4];
    for (uint32_t i = quipu_begin(quipu, 0, y_length), i_end = quipu_end(quipu, 0, y_length); i < i_end; i++) {
#line 4 "src/kernels.rs"
        y[i] = y[i] + a * (quipu_in(quipu, i, x_length, 0) ? x[i] : 0.0f);
    }
}

int32_t saxpy(void *const *arguments)
{
    quipu_context context = {0};
    context.launch = *(const quipu_launch *)arguments[5];
    context.fault = *(uint32_t *const *)arguments[6];
    context.arguments = arguments;
    int32_t status = 1;
    for (context.block[0] = 0; context.block[0] < context.launch.grid_blocks[0]; context.block[0]++) {
        for (context.thread[0] = 0; context.thread[0] < context.launch.block_threads[0]; context.thread[0]++)
            quipu_run(&context);
    }
    status = 0;
    return status;
}
