// Allocates until its input ends; then `longest MICROSECONDS calls N`: the longest time that one call slept (time on the
// processor and time waiting for it are taken out). `pace N`: N threads.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long longest, calls;
static volatile int over;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static long ran(int fd) {
    char text[64] = {0};
    long on = 0, waiting = 0;
    if (pread(fd, text, sizeof(text) - 1, 0) > 0) sscanf(text, "%ld %ld", &on, &waiting);
    return on + waiting;
}

static void *pace(void *unused) {
    int fd = open("/proc/thread-self/schedstat", O_RDONLY);
    void *held[64] = {0};
    long own = 0, made = 0;
    while (!over) {
        for (int i = 0; i < 2000; i++, made++) {
            free(held[i & 63]);
            int looks = i % 8 == 0; // the look is a system call; between two looks there are eight chances to stall
            long before = looks ? ran(fd) : 0, start = looks ? now() : 0;
            for (int k = 0; k < (looks ? 8 : 1); k++) {
                void *block = malloc(100 + i);
                __asm__ volatile("" ::"r"(block) : "memory");
                if (k) free(held[i & 63]);
                held[i & 63] = block;
            }
            if (!looks) continue;
            long slept = now() - start - (ran(fd) - before);
            if (slept > own) own = slept;
        }
    }
    long seen = __atomic_load_n(&longest, __ATOMIC_SEQ_CST);
    while (own > seen && !__atomic_compare_exchange_n(&longest, &seen, own, 0, 5, 5)) {}
    __atomic_add_fetch(&calls, made, __ATOMIC_SEQ_CST);
    return unused;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t ids[16];
    for (int k = 0; k < threads; k++) pthread_create(&ids[k], NULL, pace, NULL);
    dprintf(1, "ready %d\n", getpid());
    char byte;
    while (read(0, &byte, 1) > 0) {}
    over = 1;
    for (int k = 0; k < threads; k++) pthread_join(ids[k], NULL);
    dprintf(1, "longest %ld calls %ld\n", longest / 1000, calls);
    return 0;
}
