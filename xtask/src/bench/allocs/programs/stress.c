// stress THREADS PAIRS: blocks of mixed sizes from four places, 4096 alive per thread, twelve frames deep.
// Prints the CPU and wall seconds of the work and the process's high water.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLED __attribute__((noinline))
#define SLOTS 4096
#define DEPTH 8

static long pairs;

static uint64_t next_number(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void *kept(void *block) {
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

CALLED static void *small(size_t bytes) { return kept(malloc(bytes)); }
CALLED static void *twice(size_t bytes) { return kept(malloc(bytes * 2)); }
CALLED static void *half(size_t bytes) { return kept(malloc(bytes / 2 + 1)); }
CALLED static void *rarely_large(size_t bytes, uint64_t chance) { return kept(malloc(chance % 64 ? bytes : bytes * 40)); }

CALLED static void *choose(uint64_t number) {
    size_t bytes = 16 + ((number >> 8) & 255);
    switch (number & 3) {
    case 0: return kept(small(bytes));
    case 1: return kept(twice(bytes));
    case 2: return kept(rarely_large(bytes, number >> 20));
    default: return kept(half(bytes));
    }
}

CALLED static void *deeper(uint64_t number, int depth) {
    return kept(depth ? deeper(number, depth - 1) : choose(number));
}

static void *work(void *number) {
    uint64_t state = 0x1234567 + (uintptr_t)number;
    void **slots = calloc(SLOTS, sizeof *slots);
    for (long i = 0; i < pairs; i++) {
        uint64_t random = next_number(&state);
        void **slot = &slots[(random >> 40) % SLOTS];
        free(*slot);
        *slot = deeper(random, DEPTH);
    }
    for (int i = 0; i < SLOTS; i++) free(slots[i]);
    free(slots);
    return NULL;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

// The kernel's mark: getrusage's begins with that of whoever started us.
static long high_water(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &kib);
    if (status) fclose(status);
    return kib;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pairs = argc > 2 ? atol(argv[2]) : 1000000;
    pthread_t others[64];
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 1; i < threads && i < 64; i++) pthread_create(&others[i], NULL, work, (void *)(uintptr_t)i);
    work(NULL);
    for (int i = 1; i < threads && i < 64; i++) pthread_join(others[i], NULL);
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"cpu_s\": %.6f, \"wall_s\": %.6f, \"peak_kib\": %ld}\n", cpu, wall, high_water());
    return 0;
}
