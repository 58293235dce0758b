// Every function of the family, with sizes that only this program uses; prints what must live at the end.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void say(const char *what, void *block, unsigned long bytes) {
    printf("%s %lx %lu\n", what, (unsigned long)block, bytes);
}

int main(void) {
    void *block;
    say("malloc", malloc(70001), 70001);
    say("calloc", calloc(7, 10007), 70049);
    say("realloc", realloc(malloc(70002), 70003), 70003);
    say("reallocarray", reallocarray(NULL, 3, 23339), 70017);
    if (posix_memalign(&block, 64, 70004)) return 1;
    say("posix_memalign", block, 70004);
    say("aligned_alloc", aligned_alloc(256, 70400), 70400);
    say("memalign", memalign(128, 70006), 70006);
    say("valloc", valloc(70007), 70007);
    say("pvalloc", pvalloc(70008), 73728);
    say("strdup", strdup("a string of this program"), 25);
    free(malloc(70009));
    free(realloc(malloc(70010), 70011));
    block = malloc(70012);
    if (realloc(block, (size_t)1 << 60) != NULL) return 2; // fails: the block lives on
    say("failed_realloc", block, 70012);
    volatile size_t huge = SIZE_MAX / 2;
    if (reallocarray(block, huge, 4) != NULL) return 3; // overflows
    block = malloc(70013);
    if (realloc(block, 0) != NULL) return 4; // frees
    char *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map = mremap(map, 1 << 20, 8 << 20, MREMAP_MAYMOVE);
    madvise(map, 1 << 20, MADV_DONTNEED);
    say("map", map, 8 << 20);
    char *top = sbrk(0);
    sbrk(8192);
    brk(top);
    munmap(map + (4 << 20), 4 << 20);
    fflush(stdout);
    _exit(0);
}
