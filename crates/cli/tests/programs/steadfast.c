// Threads that sum in vector registers, sleep, read a pipe, wait for a futex, while a timer's signal comes; all check their own
// results. A line ends it: `right` and exit code 0, or what was wrong.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH = 1 << 18, SUMMERS = 2 };
typedef double vector __attribute__((vector_size(32), aligned(8)));

static volatile int ends, has_waited;
static volatile uint32_t word;
static volatile unsigned long ticks, rounds;
static const char *volatile wrong;
static int ends_of_pipe[2];
static double numbers[SUMMERS][LENGTH];

static void tick(int signal) { ticks += signal != 0; }

static void check_mask(int has_alarm) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int signal = 1; signal < SIGRTMIN; signal++)
        if (sigismember(&mask, signal) != (signal == SIGALRM ? !has_alarm : 0)) wrong = "signal mask";
}

__attribute__((target("avx2"), noinline)) static double sum(const double *numbers) {
    vector sums[8] = {0};
    for (int i = 0; i < LENGTH; i += 32)
        for (int k = 0; k < 8; k++) sums[k] += *(const vector *)(numbers + i + 4 * k) * 1.0000001;
    vector all = sums[0];
    for (int k = 1; k < 8; k++) all += sums[k] * (double)k;
    return all[0] + 2 * all[1] + 3 * all[2] + 4 * all[3];
}

static void *summer(void *mine) {
    double *numbers = mine;
    for (int i = 0; i < LENGTH; i++) numbers[i] = (i * 2654435761u % 1000003) / 7.0;
    double expected = sum(numbers);
    while (!ends) {
        double again = sum(numbers);
        if (memcmp(&again, &expected, sizeof again)) wrong = "sum";
        numbers[rounds++ % LENGTH] += 0.0;
    }
    check_mask(1);
    return NULL;
}

static void *reader(void *unused) {
    char byte;
    for (ssize_t got = 1; got == 1;) {
        got = read(ends_of_pipe[0], &byte, 1);
        if (got < 0) wrong = "read";
        if (got == 1 && byte != 'x') wrong = "what was read";
    }
    check_mask(0);
    return unused;
}

static void *waiter(void *unused) {
    while (!ends) {
        uint32_t seen = word;
        if (syscall(SYS_futex, &word, FUTEX_WAIT, seen, NULL, NULL, 0) && errno != EAGAIN) wrong = "futex";
    }
    has_waited = 1;
    check_mask(0);
    return unused;
}

// A sleep may be told to be interrupted; it then goes on with the rest. The waiter may have looked at `ends` just before it was set.
static void *sleeper(void *unused) {
    while (!ends || !has_waited) {
        struct timespec left = {0, 3000000};
        while (nanosleep(&left, &left))
            if (errno != EINTR) wrong = "nanosleep";
        if (write(ends_of_pipe[1], "x", 1) != 1) wrong = "write";
        word++;
        syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    close(ends_of_pipe[1]);
    check_mask(0);
    return unused;
}

int main(void) {
    pthread_t threads[SUMMERS + 3];
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 2000}, {0, 2000}};
    sigset_t alarm;
    if (pipe(ends_of_pipe)) return 2;
    for (int i = 0; i < SUMMERS; i++) pthread_create(&threads[i], NULL, summer, numbers[i]);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    pthread_create(&threads[SUMMERS], NULL, reader, NULL);
    pthread_create(&threads[SUMMERS + 1], NULL, waiter, NULL);
    pthread_create(&threads[SUMMERS + 2], NULL, sleeper, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    puts("ready");
    fflush(stdout);
    char line[16];
    if (!fgets(line, sizeof line, stdin)) wrong = "standard input";
    ends = 1;
    for (int i = 0; i < SUMMERS + 3; i++) pthread_join(threads[i], NULL);
    check_mask(0);
    puts(wrong ? wrong : ticks && rounds ? "right" : "nothing happened");
    return wrong != NULL;
}
