// A program that has an allocator inside, as far as its symbols tell: 30 MiB of it.
#include "own.h"

void *mi_malloc(size_t mib) { return touch(mib); }

int main(void) {
    mi_malloc(30);
    say("ready", getpid());
    await();
    return 0;
}
