// Functions that own known bytes; the program tells its own sums. No stdio: it would allocate by itself.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CALLED __attribute__((noinline))

static void *kept[64];
static int count;
static long now_live, most;

static void grew(long bytes) {
    now_live += bytes;
    if (now_live > most) most = now_live;
}

static void keep(void *block) {
    kept[count++] = block;
}

CALLED void keep_small(void) {
    for (int i = 0; i < 30; i++) {
        keep(malloc(100000)); /* line: keep_small */
        grew(100000);
    }
}

static inline __attribute__((always_inline)) void *shared_part(long bytes) {
    return calloc(1, bytes); /* line: shared_part */
}

CALLED void keep_large(void) {
    keep(shared_part(2000000)); /* line: keep_large */
    grew(2000000);
}

CALLED void spike(void) {
    char *block = malloc(8000000); /* line: spike */
    grew(8000000);
    __asm__ volatile("" : "+r"(block)::"memory");
    grew(-8000000);
    free(block);
}

CALLED void short_lived(void) {
    for (int i = 0; i < 1000; i++) {
        void *volatile block = malloc(64); /* line: short_lived */
        grew(64);
        grew(-64);
        free(block);
    }
}

CALLED void caller(void) {
    keep_small(); /* line: caller */
    keep_large();
}

int main(void) {
    caller();
    spike();
    short_lived();
    free(kept[0]);
    grew(-100000);
    char text[80];
    int length = snprintf(text, sizeof text, "peak %ld live %ld\n", most, now_live);
    return write(1, text, length) != length;
}
