/* C99, printed by Quipu. */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#ifndef __GNUC__
#pragma STDC FP_CONTRACT OFF
#endif

/* The threads of some blocks, as coroutines that run in turn, each up to the next barrier. */
typedef struct {
    ucontext_t scheduler;
    ucontext_t *threads;
    char *stacks;
    /* For each thread: the site of the barrier that it waits at and 1, with a mark if it is one of the grid; or 0 at its end. */
    uint32_t *waits;
    size_t blocks;
    /* Of a block. */
    size_t count;
    /* The thread that runs. */
    size_t current;
    /* For how many threads the predicate holds at the barrier that they come to, and did at the last. */
    size_t votes, counted;
    char *contexts;
    size_t context_size;
} quipu_crew;

enum { quipu_stack = 256 * 1024 };

/* The mark of a barrier of the grid. */
static const uint32_t quipu_grid = 0x80000000u;

static __thread quipu_crew *quipu_working;

static void quipu_run_context(const void *context);

static void quipu_dismiss(quipu_crew *crew)
{
    if (crew) {
        free(crew->threads);
        free(crew->stacks);
        free(crew->waits);
        free(crew);
    }
}

static quipu_crew *quipu_hire(size_t blocks, size_t count)
{
    quipu_crew *crew = calloc(1, sizeof *crew);
    if (!crew)
        return 0;
    crew->blocks = blocks;
    crew->count = count;
    const size_t all = blocks * count + 1;
    crew->threads = malloc(all * sizeof *crew->threads);
    crew->stacks = malloc(all * quipu_stack);
    crew->waits = malloc(all * sizeof *crew->waits);
    if (!crew->threads || !crew->stacks || !crew->waits) {
        quipu_dismiss(crew);
        return 0;
    }
    return crew;
}

static void quipu_start(void)
{
    quipu_crew *crew = quipu_working;
    const size_t own = crew->current;
    quipu_run_context(crew->contexts + own * crew->context_size);
    crew->waits[own] = 0;
}

/* Waits for the threads of the block; for how many of them the predicate holds. */
static size_t quipu_wait(quipu_crew *crew, uint32_t site, bool predicate)
{
    const size_t own = crew->current;
    crew->waits[own] = site + 1;
    crew->votes += predicate;
    swapcontext(&crew->threads[own], &crew->scheduler);
    return crew->counted;
}

/* True if a thread does not go on: it is at its end, or at a barrier of the grid. */
static bool quipu_stays(uint32_t wait)
{
    return !wait || wait & quipu_grid;
}

/* Runs a block up to the next barrier of the grid, or to its end. False if not all threads came to a barrier. */
static bool quipu_work_on(quipu_crew *crew, size_t first)
{
    const uint32_t *waits = crew->waits + first;
    for (;;) {
        for (size_t i = 0; i < crew->count; i++) {
            crew->current = first + i;
            swapcontext(&crew->scheduler, &crew->threads[crew->current]);
        }
        /* All came to the barrier that the first came to, or all are at their end. */
        for (size_t i = 1; i < crew->count; i++) {
            if (waits[i] != waits[0]) {
                crew->current = first + (waits[0] ? 0 : i);
                return false;
            }
        }
        if (crew->count == 0 || quipu_stays(waits[0]))
            return true;
        crew->counted = crew->votes;
        crew->votes = 0;
    }
}

/* Runs the blocks. False if not all threads came to a barrier: the current one waits there. */
static bool quipu_work(quipu_crew *crew, void *contexts, size_t context_size)
{
    const size_t all = crew->blocks * crew->count;
    crew->contexts = contexts;
    crew->context_size = context_size;
    crew->votes = 0;
    quipu_working = crew;
    for (size_t i = 0; i < all; i++) {
        getcontext(&crew->threads[i]);
        crew->threads[i].uc_stack.ss_sp = crew->stacks + i * quipu_stack;
        crew->threads[i].uc_stack.ss_size = quipu_stack;
        crew->threads[i].uc_link = &crew->scheduler;
        makecontext(&crew->threads[i], quipu_start, 0);
    }
    for (;;) {
        for (size_t first = 0; first < all; first += crew->count) {
            if (!quipu_work_on(crew, first))
                return false;
        }
        /* All blocks came to the barrier of the grid that the first came to, or all are at their end. */
        for (size_t first = 0; first < all; first += crew->count) {
            if (crew->waits[first] != crew->waits[0]) {
                crew->current = crew->waits[0] ? 0 : first;
                return false;
            }
        }
        if (all == 0 || !crew->waits[0])
            return true;
    }
}

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
    float *partial;
    uint32_t partial_length;
    void *const *arguments;
    quipu_crew *crew;
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

/* What a thread does. */
static void quipu_run(const quipu_context *quipu)
{
    const float *restrict const x = *(const float *const *)quipu->arguments[0];
    const uint32_t x_length = *(const uint32_t *)quipu->arguments[1];
    float *const sums = *(float *const *)quipu->arguments[2];
    const uint32_t sums_length = *(const uint32_t *)quipu->arguments[3];
    const uint32_t partial_length = *(const uint32_t *)quipu->arguments[4];
    float *const partial = quipu->partial;
    const uint32_t thread = quipu->thread[0];
    const uint32_t t1 = quipu->block[0] * quipu->launch.block_threads[0] + quipu->thread[0];
#line 10 "src/kernels.rs"
    const float t2 = quipu_in(quipu, t1, x_length, 0) ? x[t1] : 0.0f;
#line 10 "src/kernels.rs"
    if (quipu_in(quipu, thread, partial_length, 1))
        partial[thread] = t2;
#line 10 "src/kernels.rs"
    quipu_wait(quipu->crew, 2, false);
#line 10 "src/kernels.rs"
    uint32_t distance_2 = quipu->launch.block_threads[0] / 2u;
#line 10 "src/kernels.rs"
    while (distance_2 > 0u) {
#line 13 "src/kernels.rs"
        if (thread < distance_2) {
            const uint32_t t3 = thread + distance_2;
#line 14 "src/kernels.rs"
            const float t4 = quipu_in(quipu, thread, partial_length, 3) ? partial[thread] : 0.0f;
#line 14 "src/kernels.rs"
            const float t5 = t4 + (quipu_in(quipu, t3, partial_length, 3) ? partial[t3] : 0.0f);
#line 14 "src/kernels.rs"
            if (quipu_in(quipu, thread, partial_length, 4))
                partial[thread] = t5;
        }
#line 14 "src/kernels.rs"
        quipu_wait(quipu->crew, 5, false);
#line 14 "src/kernels.rs"
        distance_2 = distance_2 / 2u;
    }
#line 14 "src/kernels.rs"
    if (thread == 0u) {
#line 20 "src/kernels.rs"
        const float t6 = quipu_in(quipu, 0u, partial_length, 6) ? partial[0u] : 0.0f;
#line 20 "src/kernels.rs"
        const uint32_t t7 = quipu->block[0];
#line 20 "src/kernels.rs"
        if (quipu_in(quipu, t7, sums_length, 7))
            sums[t7] = t6;
    }
}

static void quipu_run_context(const void *context)
{
    quipu_run(context);
}

int32_t block_sum(void *const *arguments)
{
    quipu_context context = {0};
    context.launch = *(const quipu_launch *)arguments[5];
    context.fault = *(uint32_t *const *)arguments[6];
    context.arguments = arguments;
    int32_t status = 1;
    const size_t threads = (size_t)context.launch.block_threads[0];
    const size_t blocks = 1;
    const uint32_t partial_length = *(const uint32_t *)arguments[4];
    context.partial_length = partial_length;
    context.partial = calloc((size_t)partial_length + 1, sizeof(float));
    quipu_context *contexts = malloc((blocks * threads + 1) * sizeof *contexts);
    quipu_crew *crew = quipu_hire(blocks, threads);
    context.crew = crew;
    if (!context.partial || !contexts || !crew)
        goto quipu_end;
    for (context.block[0] = 0; context.block[0] < context.launch.grid_blocks[0]; context.block[0]++) {
        memset(context.partial, 0, (size_t)partial_length * sizeof(*context.partial));
        size_t at = 0;
        for (context.thread[0] = 0; context.thread[0] < context.launch.block_threads[0]; context.thread[0]++)
            contexts[at++] = context;
        if (!quipu_work(crew, contexts, sizeof *contexts)) {
            quipu_fault(&contexts[crew->current], 0, 0, (crew->waits[crew->current] & ~quipu_grid) - 1);
            status = 0;
            goto quipu_end;
        }
    }
    status = 0;
quipu_end:
    free(context.partial);
    free(contexts);
    quipu_dismiss(crew);
    return status;
}
