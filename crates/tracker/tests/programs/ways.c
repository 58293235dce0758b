// Known live sets by size, reached in every way that a sample can be passed over or drawn: blocks made by `calloc` and
// `realloc`, blocks that move, shrink, grow, and a `realloc` that fails. `T N`: in T threads, N rounds each.
#include "work.h"
#include <pthread.h>

#define NI __attribute__((noinline))
NI static void *seen(void *p) { KEEP(p); return p; }

static int rounds = 50000;

static void *make(void *unused) {
    for (int i = 0; i < rounds; i++) {
        seen(calloc(3, 24));
        seen(realloc(seen(malloc(41)), 88));
        if (i % 10 == 0) {
            seen(realloc(NULL, 2064));
            free(seen(realloc(seen(malloc(1001)), 3001)));
        }
        if (i % 25 == 0) {
            volatile size_t huge = (size_t)1 << 60;
            if (realloc(seen(malloc(504)), huge)) abort();
        }
        if (i % 100 == 0) {
            void *block;
            if (posix_memalign(&block, 64, 4160)) abort();
            seen(block);
        }
        if (i % 1000 == 0) {
            seen(realloc(seen(malloc(101)), 1 << 20));
            seen(realloc(seen(calloc(1, 1 << 19)), 57));
        }
    }
    return unused;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (argc > 2) rounds = atoi(argv[2]);
    pthread_t ids[16];
    for (int k = 0; k < threads; k++) pthread_create(&ids[k], NULL, make, NULL);
    for (int k = 0; k < threads; k++) pthread_join(ids[k], NULL);
    _exit(0);
}
