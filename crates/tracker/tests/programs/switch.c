// Threads that allocate while somebody switches the tracker. Each line of input is a turn: every thread makes COUNT
// blocks of a size that is the turn's own, and frees some of what it kept of earlier turns. Between turns all of them go
// on allocating and freeing. After a turn the program prints how many blocks of each turn's size live, by its own count.
#include "work.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, COUNT = 400, TURNS = 8, PASSING = 5008 };

static void *kept[THREADS][TURNS][COUNT];
static long live[TURNS];
static int turn, done;

static size_t size_of_turn(int number) { return 1000 + 96 * (size_t)number; }

static void take_turn(int thread, int number) {
    for (int i = 0; i < COUNT; i++) {
        kept[thread][number][i] = malloc(size_of_turn(number));
        KEEP(kept[thread][number][i]);
    }
    __atomic_add_fetch(&live[number], COUNT, __ATOMIC_RELAXED);
    for (int before = 0; before < number; before++)
        for (int i = (number + before) % 3; i < COUNT; i += 3)
            if (kept[thread][before][i]) {
                free(kept[thread][before][i]);
                kept[thread][before][i] = NULL;
                __atomic_sub_fetch(&live[before], 1, __ATOMIC_RELAXED);
            }
}

static void *allocate(void *argument) {
    int thread = (int)(long)argument, taken = 0;
    void *passing[8] = {0};
    for (unsigned i = 0;; i++) {
        int now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE);
        if (now < 0) break;
        if (now > taken) {
            take_turn(thread, taken++);
            __atomic_add_fetch(&done, 1, __ATOMIC_RELEASE);
        }
        free(passing[i & 7]);
        passing[i & 7] = malloc(PASSING);
        KEEP(passing[i & 7]);
        if (i % 64 == 0) sched_yield();
    }
    for (int i = 0; i < 8; i++) free(passing[i]);
    return NULL;
}

int main(void) {
    pthread_t ids[THREADS];
    char text[256], byte;
    for (long i = 0; i < THREADS; i++) pthread_create(&ids[i], NULL, allocate, (void *)i);
    for (int number = 1; number <= TURNS && read(0, &byte, 1) == 1; number++) {
        __atomic_store_n(&turn, number, __ATOMIC_RELEASE);
        while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < number * THREADS) sched_yield();
        int length = 0;
        for (int i = 0; i < TURNS; i++)
            length += snprintf(text + length, sizeof(text) - (size_t)length, "%ld ", live[i]);
        text[length - 1] = '\n';
        if (write(1, text, (size_t)length) != length) return 1;
    }
    __atomic_store_n(&turn, -1, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    return 0;
}
