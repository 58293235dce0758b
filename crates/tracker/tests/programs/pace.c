// Allocates until told to stop (end of input) and prints the longest time one call slept, in microseconds,
// and how many calls there were.
#include "work.h"
#include <fcntl.h>
#include <poll.h>
#include <time.h>

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

// Time on the processor and time waiting for it: neither is a stall of ours.
static long ran(int fd) {
    char text[64] = {0};
    long on = 0, waiting = 0;
    if (pread(fd, text, sizeof(text) - 1, 0) > 0) sscanf(text, "%ld %ld", &on, &waiting);
    return on + waiting;
}

int main(void) {
    long longest = 0, calls = 0;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY);
    void *held[64] = {0};
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct pollfd input = {0, POLLIN, 0};
        if (poll(&input, 1, 0)) break;
        for (int i = 0; i < 1000; i++, calls++) {
            free(held[i & 63]);
            long before = ran(fd), start = now();
            held[i & 63] = malloc(100 + i);
            long slept = now() - start - (ran(fd) - before);
            KEEP(held[i & 63]);
            if (slept > longest) longest = slept;
        }
    }
    printf("longest %ld calls %ld\n", longest / 1000, calls);
    return 0;
}
