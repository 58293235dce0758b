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

// A call that took longer than this is worth a look at what it did with the time.
enum { LONG_NS = 1000000, BETWEEN_LOOKS = 16 };

static void *pace(void *unused) {
    int fd = open("/proc/thread-self/schedstat", O_RDONLY);
    void *held[64] = {0};
    long own = 0, made = 0, looked = now(), had_run = ran(fd);
    while (!over) {
        for (int i = 0; i < 2000; i++, made++) {
            void **place = &held[i & 63];
            for (int call = 0; call < 2; call++) {
                long start = now();
                if (call) *place = malloc(100 + i);
                else free(*place);
                __asm__ volatile("" ::"r"(*place) : "memory");
                int is_long = now() - start > LONG_NS;
                if (!is_long && i % BETWEEN_LOOKS) continue;
                long at = now(), run = ran(fd);
                long slept = at - looked - (run - had_run);
                if (is_long && slept > own) own = slept;
                looked = at, had_run = run;
            }
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
