/* Eight threads that leave holes: the program tells what malloc says of itself, then waits. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, BLOCKS = 200000 };

static pthread_barrier_t gate;

static void *work(void *seed) {
    static __thread void *blocks[BLOCKS];
    unsigned state = (unsigned)(size_t)seed * 2654435761u;
    for (int i = 0; i < BLOCKS; i++) {
        state = state * 1664525u + 1013904223u;
        size_t size = 16 + state % 700;
        blocks[i] = malloc(size);
        memset(blocks[i], 1, size);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3) free(blocks[i]);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&gate, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    pthread_barrier_wait(&gate);
    printf("{\"ready\": true}\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        struct mallinfo2 info = mallinfo2();
        printf("{\"mallinfo\": {\"uordblks\": %zu, \"fordblks\": %zu, \"hblkhd\": %zu}}\n", info.uordblks, info.fordblks, info.hblkhd);
        fflush(stdout);
    }
    pthread_barrier_wait(&gate);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
