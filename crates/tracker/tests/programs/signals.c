// A signal handler that allocates (as programs should not), and one on its own stack.
#include "work.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static volatile long handled;

static void on_tick(int signal) {
    (void)signal;
    // Not malloc, which may be interrupted: a mapping, which is told as well.
    void *map = mmap(NULL, 12288, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(map, 12288);
    handled++;
}

int main(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_ONSTACK};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &often, NULL);
    while (handled < 100) work(1000);
    setitimer(ITIMER_PROF, &never, NULL);
    printf("made %ld handled %ld\n", made, handled);
    return 0;
}
