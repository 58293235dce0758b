// Known live sets by site; the order of what is made is mixed. `T` threads share the work.
#include "work.h"
#include <pthread.h>

#define NI __attribute__((noinline))
NI static void *small(void) { void *p = malloc(64); KEEP(p); return p; }
NI static void *medium(void) { void *p = malloc(2048); KEEP(p); return p; }
NI static void *big(void) { void *p = malloc(100000); KEEP(p); return p; }
NI static void *large(void) { void *p = malloc(1 << 20); KEEP(p); return p; }
NI static void *passing(void) { void *p = malloc(128); KEEP(p); return p; }
NI static void *half(void) { void *p = malloc(48); KEEP(p); return p; }

static void *make(void *unused) {
    for (int i = 0; i < 50000; i++) {
        small();
        if (i % 10 == 0) medium();
        if (i % 250 == 0) big();
        if (i % 1000 == 0) large();
        for (int k = 0; k < 10; k++) free(passing());
        for (int k = 0; k < 10; k++) { void *p = half(); if (k & 1) free(p); }
    }
    return unused;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t ids[16];
    for (int k = 0; k < threads; k++) pthread_create(&ids[k], NULL, make, NULL);
    for (int k = 0; k < threads; k++) pthread_join(ids[k], NULL);
    fflush(stdout);
    _exit(0);
}
