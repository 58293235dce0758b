/* Many threads: some often awake, some mostly asleep; each line is answered when every one of them has made a step. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile long steps[4096];
static long count;

static void *work(void *argument) {
    long index = (long)argument;
    for (;;) {
        steps[index]++;
        usleep(index % 2 ? 1000 : 5000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    count = argc > 1 ? atol(argv[1]) : 4;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (long i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, work, (void *)i)) abort();
    }
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        for (long i = 0; i < count; i++) {
            long before = steps[i];
            while (steps[i] == before) usleep(100);
        }
        puts("all");
        fflush(stdout);
    }
    return 0;
}
