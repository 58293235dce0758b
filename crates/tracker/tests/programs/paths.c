// Allocates from very many different stacks: each number below COUNT is a path through a tree of calls, by its bits.
// Holds MIB of touched memory meanwhile. Prints how many blocks it made, and with a third argument where its functions are.
#include "work.h"

static long count;

__attribute__((noinline)) static void left(unsigned long bits, int depth);

__attribute__((noinline)) static void right(unsigned long bits, int depth) {
    if (depth == 0) {
        void *block = malloc(32000 + (bits & 7));
        KEEP(block);
        free(block);
        count++;
    } else if (bits & 1) right(bits >> 1, depth - 1);
    else left(bits >> 1, depth - 1);
    KEEP(&count);
}

__attribute__((noinline)) static void left(unsigned long bits, int depth) {
    if (depth == 0) {
        void *block = malloc(32000 + (bits & 7));
        KEEP(block);
        free(block);
        count++;
    } else if (bits & 1) right(bits >> 1, depth - 1);
    else left(bits >> 1, depth - 1);
    KEEP(&count);
}

int main(int argc, char **argv) {
    long wanted = atol(argv[1]), mib = argc > 2 ? atol(argv[2]) : 0;
    char *held = NULL;
    for (long n = 0; n < wanted; n++) {
        // Half of the memory at the start, half at the end: the tracker comes in between.
        if (mib && (n == 0 || n == wanted / 2)) {
            held = malloc((size_t)mib << 19);
            memset(held, 1, (size_t)mib << 19);
        }
        right((unsigned long)n, 24);
    }
    KEEP(held);
    printf("made %ld\n", count);
    if (argc > 3) printf("%lx %lx %lx\n", (long)left, (long)right, (long)main);
    return 0;
}
