// Work on ucontext stacks, switched many times; one of them is unmapped afterwards.
#include "work.h"
#include <sys/mman.h>
#include <ucontext.h>

static ucontext_t here, there;

static void fiber(void) {
    for (;;) {
        work(10);
        swapcontext(&there, &here);
    }
}

int main(void) {
    char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = 65536;
    there.uc_link = &here;
    makecontext(&there, fiber, 0);
    for (int i = 0; i < 1000; i++) {
        swapcontext(&here, &there);
        work(10);
    }
    munmap(stack, 65536);
    work(1000);
    printf("made %ld\n", made);
    return 0;
}
