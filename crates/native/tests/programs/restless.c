/* Blocks of all sizes, taken and given back until somebody ends it: hardly a bin is as it was a moment ago. */
#include "truth.h"

#define KEPT 40000
static void *kept[KEPT];

static void turn_over(void) {
    unsigned long i = chance(KEPT);
    free(kept[i]);
    kept[i] = chance(3) ? malloc(24 + chance(3000)) : NULL;
}

int main(void) {
    alarm(100);
    open_truth();
    for (int i = 0; i < 10 * KEPT; i++) turn_over();
    say("used", malloc(700));
    fputs("READY\n", out);
    fflush(out);
    for (;;) {
        for (int work = 0; work < 100; work++) chance(2);
        turn_over();
    }
}
