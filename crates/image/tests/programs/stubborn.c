/* What a debugger must not disturb: blocked signals, a handler for SIGTRAP, a sleep, registers in use.
   Answers a line with how the sleep ended, how long it took at least (ms), and a number that took long to compute. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void on_trap(int signal) {
    (void)signal;
    static const char words[] = "SIGTRAP\n";
    if (write(1, words, sizeof words - 1) < 0) _exit(9);
}

static void *compute(void *result) {
    uint64_t state = 1;
    double sum = 0;
    for (long i = 0; i < 60000000; i++) {
        state = state * 6364136223846793005UL + 1442695040888963407UL;
        sum += (double)(state >> 40) * 0.5;
    }
    memcpy(result, &sum, sizeof sum);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_trap};
    sigset_t all;
    sigaction(SIGTRAP, &action, NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        pthread_t thread;
        double result = 0, began = now();
        pthread_create(&thread, NULL, compute, &result);
        struct timespec time = {0, 300000000}, left;
        int outcome = nanosleep(&time, &left);
        int enough = now() - began >= 300;
        pthread_join(thread, NULL);
        printf("%d %d %.3f\n", outcome, enough, result);
        fflush(stdout);
    }
    return 0;
}
