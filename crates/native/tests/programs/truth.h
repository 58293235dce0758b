/* What a program knows of its own heap, printed without allocating: one fact per line, then READY, then it waits for
   a line on stdin. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Since 2.33; older ones have int counters. */
extern struct mallinfo2 mallinfo2(void) __attribute__((weak));

static char stream_buffer[1 << 20];
static FILE *out;

/* First of all: the stream's own block must be there before anything is counted. */
static void open_truth(void) {
    out = fdopen(1, "w");
    setvbuf(out, stream_buffer, _IOFBF, sizeof stream_buffer);
}

static void say(const char *kind, void *block) {
    fprintf(out, "%s %lu %lu\n", kind, (unsigned long)block, (unsigned long)malloc_usable_size(block));
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void totals(void) {
    if (mallinfo2) {
        struct mallinfo2 m = mallinfo2();
        fprintf(out, "mallinfo %zu %zu %zu %zu %zu %zu %zu\n", m.arena, m.uordblks, m.fordblks, m.fsmblks, m.hblks,
                m.hblkhd, m.keepcost);
    } else {
        struct mallinfo m = mallinfo();
        fprintf(out, "mallinfo %d %d %d %d %d %d %d\n", m.arena, m.uordblks, m.fordblks, m.fsmblks, m.hblks, m.hblkhd,
                m.keepcost);
    }
    malloc_info(0, out);
}

static void ready(void) {
    totals();
    fputs("READY\n", out);
    fflush(out);
    char line[8];
    while (read(0, line, sizeof line) < 0) {}
}

static unsigned long state = 88172645463325252UL;
static unsigned long chance(unsigned long below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}
