// Runs a kernel with a stack for each work-item. A work-item runs until it waits or returns, and then the next one does: so this
// takes each kernel at its word, and knows nothing of regions, uniform values or vectors.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { MOST = 256, STACK = 1 << 20 };

typedef void Kernel(const void *, void *, void *, void *, void *, int, unsigned, void *, void *);

static struct {
    Kernel *kernel;
    void **arguments;
    size_t local[3], groups[3], group[3], items, now;
    int steps;
    unsigned step;
} launch;
static ucontext_t scheduler, fibres[MOST];
static void *waits_at[MOST];
static int is_through[MOST];
static uint64_t slots[MOST];

static size_t along(size_t item, unsigned axis) {
    size_t x = launch.local[0], y = launch.local[1];
    return axis == 0 ? item % x : axis == 1 ? item / x % y : axis == 2 ? item / x / y : 0;
}
size_t get_local_id(unsigned axis) { return along(launch.now, axis); }
size_t get_group_id(unsigned axis) { return axis < 3 ? launch.group[axis] : 0; }
size_t get_local_size(unsigned axis) { return axis < 3 ? launch.local[axis] : 1; }
size_t get_num_groups(unsigned axis) { return axis < 3 ? launch.groups[axis] : 1; }
size_t get_global_size(unsigned axis) { return get_num_groups(axis) * get_local_size(axis); }
size_t get_global_id(unsigned axis) { return get_group_id(axis) * get_local_size(axis) + get_local_id(axis); }
size_t get_local_linear_id(void) { return launch.now; }
uint64_t *reference_slots(void) { return slots; }

static void wait_here(void *place) {
    waits_at[launch.now] = place;
    swapcontext(&fibres[launch.now], &scheduler);
}
// Programs call it by the name that the language's rules for overloaded functions give it, and by its own.
void barrier(unsigned fences) { (void)fences; wait_here(__builtin_return_address(0)); }

static void one(void) {
    void **a = launch.arguments;
    launch.kernel(a[0], a[1], a[2], a[3], a[4], *(int *)a[5], *(unsigned *)a[6], a[7], a[8]);
    is_through[launch.now] = 1;
    waits_at[launch.now] = NULL;
}

// Runs all groups. `backwards` has work-items take turns in the other order. 0 if all went well, and 1 if work-items waited for
// each other at different places.
int reference_run(Kernel *kernel, void **arguments, const size_t *local, const size_t *groups, int backwards) {
    static char *stacks;
    if (!stacks) {
        stacks = mmap(NULL, (size_t)MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) return 2;
    }
    launch.kernel = kernel;
    launch.arguments = arguments;
    launch.items = local[0] * local[1] * local[2];
    if (launch.items > MOST) return 3;
    for (int axis = 0; axis < 3; axis++) launch.local[axis] = local[axis], launch.groups[axis] = groups[axis];
    for (size_t group = 0; group < groups[0] * groups[1] * groups[2]; group++) {
        launch.group[0] = group % groups[0];
        launch.group[1] = group / groups[0] % groups[1];
        launch.group[2] = group / groups[0] / groups[1];
        for (size_t item = 0; item < launch.items; item++) {
            getcontext(&fibres[item]);
            fibres[item].uc_stack.ss_sp = stacks + item * STACK;
            fibres[item].uc_stack.ss_size = STACK;
            fibres[item].uc_link = &scheduler;
            makecontext(&fibres[item], one, 0);
            is_through[item] = 0;
        }
        for (int any = 1; any;) {
            any = 0;
            void *place = NULL;
            for (size_t turn = 0; turn < launch.items; turn++) {
                size_t item = backwards ? launch.items - 1 - turn : turn;
                if (is_through[item]) continue;
                launch.now = item;
                swapcontext(&scheduler, &fibres[item]);
                if (is_through[item]) continue;
                if (any && waits_at[item] != place) return 1;
                place = waits_at[item];
                any = 1;
            }
        }
    }
    return 0;
}
