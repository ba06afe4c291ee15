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
