/* Heaps of known shapes: shapes NAME. */
#include "truth.h"

#define THREADS 8
#define KEPT 2000
static pthread_barrier_t filled, counted;

static void single(void) {
    static void *kept[KEPT];
    for (int i = 0; i < KEPT; i++) kept[i] = malloc(1 + chance(5000));
    for (int i = 0; i < KEPT; i += 3) free(kept[i]);
    for (int i = 1; i < KEPT; i += 3) say("used", kept[i]);
}

/* Sizes nobody else uses: seven fit into the thread's cache, or sixteen, and are found nowhere else. */
static void cached(void) {
    void *block[6][5];
    for (int size = 0; size < 6; size++)
        for (int i = 0; i < 5; i++) block[size][i] = malloc(680 + 16 * size);
    void *guard = malloc(680);
    for (int size = 0; size < 6; size++)
        for (int i = 0; i < 5; i++) say("cached", block[size][i]), free(block[size][i]);
    say("used", guard);
}

static void fastbins(void) {
    static void *block[4000];
    for (int i = 0; i < 4000; i++) block[i] = malloc(40 + 16 * (i % 3));
    for (int i = 0; i < 4000; i++) free(block[i]);
    say("used", malloc(700));
}

static void *fragment(void *seed) {
    void **kept = calloc(KEPT, sizeof *kept);
    unsigned long x = (unsigned long)seed * 2654435761u + 1;
    for (int round = 0; round < 20 * KEPT; round++) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        int i = (x >> 33) % KEPT;
        free(kept[i]);
        kept[i] = (x >> 20) % 3 ? malloc((x >> 40) % 9000) : NULL;
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&counted);
    return kept;
}

static void threads(void) {
    pthread_t thread[THREADS];
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&counted, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, fragment, (void *)(i + 1));
    pthread_barrier_wait(&filled);
    single();
}

static void few_arenas(void) {
    mallopt(M_ARENA_MAX, 2);
    threads();
}

static void *exhaust(void *unused) {
    for (int i = 0; i < 3000; i++) *(char *)malloc(60000) = 1;
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&counted);
    return unused;
}

/* 180 MB in one thread arena: three heaps. */
static void heaps(void) {
    pthread_t thread;
    pthread_barrier_init(&filled, NULL, 2);
    pthread_barrier_init(&counted, NULL, 2);
    pthread_create(&thread, NULL, exhaust, NULL);
    pthread_barrier_wait(&filled);
}

static void *finish(void *unused) {
    void *block[100];
    for (int i = 0; i < 100; i++) block[i] = malloc(100 + i);
    for (int i = 0; i < 100; i++) free(block[i]);
    return unused;
}

static void ended(void) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, finish, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

/* 200 MB freed below a block that stays: held, and resident. */
static void held(void) {
    static void *block[3200];
    for (int i = 0; i < 3200; i++) memset(block[i] = malloc(64 << 10), 1, 64 << 10);
    say("used", malloc(100));
    for (int i = 0; i < 3200; i++) free(block[i]);
}

static void trimmed(void) {
    held();
    malloc_trim(0);
}

static void mapped(void) {
    void *block[20], *aligned;
    for (int i = 0; i < 20; i++) memset(block[i] = malloc((200 << 10) + i * 5000), 1, 100);
    for (int i = 0; i < 20; i += 5) free(block[i]), block[i] = NULL;
    block[1] = realloc(block[1], 3 << 20);
    block[2] = realloc(block[2], 150 << 10);
    for (int i = 0; i < 20; i++)
        if (block[i]) say("mapped", block[i]);
    for (int power = 6; power < 23; power += 4)
        if (!posix_memalign(&aligned, 1UL << power, 40 << 20)) memset(aligned, 1, 100), say("mapped", aligned);
    /* Not malloc's, in the same line of the kernel's list. */
    for (int i = 0; i < 5; i++) {
        char *own = mmap(NULL, 300 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(own, i, 300 << 10);
        if (malloc(40 << 20) == own) fputs("never\n", out);
    }
}

static void threshold(void) {
    mallopt(M_MMAP_THRESHOLD, 4096);
    mallopt(M_MMAP_MAX, 5000);
    for (int i = 0; i < 3000; i++) *(char *)malloc(1000 + chance(20000)) = 1;
}

static void aligned(void) {
    static void *block[1000];
    for (int i = 0; i < 1000; i++)
        if (posix_memalign(&block[i], 16UL << i % 9, 1 + chance(6000))) exit(1);
    for (int i = 0; i < 1000; i += 2) free(block[i]);
    for (int i = 1; i < 1000; i += 2) say("used", block[i]);
}

/* Something stands in the way of the program break: the main arena goes on in mappings. */
static void pieces(void) {
    void *first = malloc(100);
    char *end = sbrk(0);
    if (mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != end) exit(2);
    for (int i = 0; i < 400; i++) {
        void *block = malloc(10000 + chance(5000));
        if (i % 4) say("used", block);
        else free(block);
    }
    say("used", first);
}

/* Somebody else moves the program break in between. */
static void foreign(void) {
    for (int i = 0; i < 5; i++) {
        say("used", malloc(120 << 10));
        if (i % 2) memset(sbrk(20000 + 24), 7, 20000);
    }
    single();
}

/* A header in the middle is overwritten. */
static void corrupt(void) {
    single();
    volatile size_t *victim = malloc(1000);
    for (int i = 0; i < 1000; i++) say("used", malloc(100));
    totals();
    victim[-1] = 0x4141414141414141;
    fputs("READY\n", out);
    fflush(out);
    char line[8];
    while (read(0, line, sizeof line) < 0) {}
    _exit(0);
}

static void million(void) {
    void **block = malloc(1300000 * sizeof *block);
    for (int i = 0; i < 1300000; i++) block[i] = malloc(24 + chance(200));
    for (int i = 0; i < 1300000; i += 4) free(block[i]);
}

static void *churn(void *seed) {
    /* Until the process ends. */
    void *kept[500] = {0};
    unsigned long x = (unsigned long)seed + 1;
    for (;;) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        int i = (x >> 33) % 500;
        free(kept[i]);
        kept[i] = malloc((x >> 40) % 20000);
    }
    return seed;
}

static void busy(void) {
    pthread_t thread;
    for (long i = 0; i < 4; i++) pthread_create(&thread, NULL, churn, (void *)i);
}

static const struct {
    const char *name;
    void (*make)(void);
} shapes[] = {{"single", single},     {"cached", cached},       {"fastbins", fastbins}, {"threads", threads},
              {"few_arenas", few_arenas}, {"heaps", heaps},     {"ended", ended},       {"held", held},
              {"trimmed", trimmed},   {"mapped", mapped},       {"threshold", threshold}, {"aligned", aligned},
              {"pieces", pieces},     {"foreign", foreign},     {"corrupt", corrupt},   {"million", million},
              {"busy", busy}};

int main(int argc, char **argv) {
    open_truth();
    for (size_t i = 0; argc > 1 && i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(argv[1], shapes[i].name)) {
            shapes[i].make();
            ready();
            _exit(0);
        }
    return 64;
}
