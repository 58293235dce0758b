// Leaves hooks by siglongjmp, again and again, then works: what follows must be told.
#include "work.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static sigjmp_buf back;

static void leave(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

int main(void) {
    signal(SIGALRM, leave);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    for (volatile int jumps = 0; jumps < 1000; jumps++) {
        if (!sigsetjmp(back, 1)) {
            setitimer(ITIMER_REAL, &often, NULL);
            for (;;) munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    work(1000);
    printf("made %ld\n", made);
    return 0;
}
