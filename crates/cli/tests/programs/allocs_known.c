// Allocates and frees at random in N threads and keeps its own books: `truth LIVE PEAK TOTAL COUNT`. Nothing else
// allocates: it writes without stdio and ends without it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long live, peak, total, count;
static long rounds = 100000;

__attribute__((noinline)) static void *get(long bytes) {
    char *block = malloc(bytes);
    *(volatile char *)block = 1;
    long now = __atomic_add_fetch(&live, bytes, __ATOMIC_SEQ_CST);
    long highest = __atomic_load_n(&peak, __ATOMIC_SEQ_CST);
    while (now > highest && !__atomic_compare_exchange_n(&peak, &highest, now, 0, 5, 5)) {}
    __atomic_add_fetch(&total, bytes, __ATOMIC_RELAXED);
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return block;
}

static void put(void *block, long bytes) {
    free(block);
    __atomic_sub_fetch(&live, bytes, __ATOMIC_SEQ_CST);
}

// Eight places that allocate, by the depth of the call.
__attribute__((noinline)) static void *deep(int depth, long bytes) {
    void *block = depth ? deep(depth - 1, bytes) : get(bytes);
    __asm__ volatile("" ::: "memory");
    return block;
}

static void *work(void *seed) {
    void *held[2048] = {0};
    long size[2048];
    unsigned long x = 88172645463325252UL + (unsigned long)seed * 77777;
    for (long i = 0; i < rounds; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        int k = x & 2047;
        if (held[k]) put(held[k], size[k]);
        size[k] = 16 + (x >> 20) % 3000;
        held[k] = deep((x >> 40) & 7, size[k]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long threads = argc > 2 ? atol(argv[2]) : 0;
    pthread_t ids[64];
    if (argc > 1) rounds = atol(argv[1]);
    // With threads the C library allocates their control blocks itself, by a call that nobody sees.
    for (long k = 0; k < threads; k++) pthread_create(&ids[k], NULL, work, (void *)k);
    for (long k = 0; k < threads; k++) pthread_join(ids[k], NULL);
    if (!threads) work(NULL);
    char line[128];
    int length = snprintf(line, sizeof(line), "truth %ld %ld %ld %ld\n", live, peak, total, count);
    _exit(write(1, line, length) != length);
}
