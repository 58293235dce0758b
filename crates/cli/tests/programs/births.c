// Makes memory in the ways that lines on standard input say, and answers each with where it is: "name address".
#include <fcntl.h>
#include <sys/stat.h>

#include "own.h"

#define PAGE 4096UL
#define HUGE (2UL << 20)

static long pages;

static char *map(size_t bytes, int advice) {
    char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) _exit(98);
    madvise(at, bytes, advice);
    return at;
}

// Touched page by page.
static void *fresh(void *unused) {
    (void)unused;
    char *at = map(pages * PAGE, MADV_NOHUGEPAGE);
    for (long i = 0; i < pages; i++) at[i * PAGE] = 1;
    return at;
}

static char *in_a_thread(void) {
    pthread_t thread;
    void *at;
    pthread_create(&thread, 0, fresh, 0);
    pthread_join(thread, &at);
    return at;
}

// Touched by a system call.
static char *by_a_call(void) {
    char *at = map(pages * PAGE, MADV_NOHUGEPAGE);
    int zeros = open("/dev/zero", O_RDONLY);
    if (read(zeros, at, pages * PAGE) != pages * (long)PAGE) _exit(97);
    close(zeros);
    return at;
}

static char *given_back(void) {
    char *at = fresh(0);
    munmap(at, pages * PAGE);
    return at;
}

static long in_a_fork(void) {
    pid_t child = fork();
    if (!child) {
        fresh(0);
        _exit(0);
    }
    waitpid(child, 0, 0);
    return child;
}

// One byte of a huge page.
static char *huge(void) {
    char *at = map(2 * HUGE, MADV_HUGEPAGE);
    at = (char *)(((unsigned long)at + HUGE - 1) & ~(HUGE - 1));
    at[PAGE * 3] = 1;
    return at;
}

int main(void) {
    char line[64], how[32];
    say("ready", getpid());
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%31s %ld", how, &pages) == 2) {
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        long at = !strcmp(how, "fresh") ? (long)fresh(0)
            : !strcmp(how, "thread") ? (long)in_a_thread()
            : !strcmp(how, "call") ? (long)by_a_call()
            : !strcmp(how, "churn") ? (long)given_back()
            : !strcmp(how, "fork") ? in_a_fork()
            : !strcmp(how, "huge") ? (long)huge() : 0;
        getrusage(RUSAGE_SELF, &after);
        say(how, at);
        say("faults", after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt);
    }
    return 0;
}
