// Four threads allocate, with short pauses so that a recorder can follow, until a line is read: then each makes 1000 blocks of each of three sizes, in three
// ways, and says so. At the next line each frees them.
#include "work.h"
#include <pthread.h>

#define THREADS 4
#define BLOCKS 1000

static int told; // lines read
static pthread_barrier_t done;

static int lines(void) { return __atomic_load_n(&told, __ATOMIC_ACQUIRE); }

static void churn(void) {
    void *held[64] = {0};
    for (int i = 0; !lines(); i++) {
        void **at = &held[i & 63];
        if (i % 256 == 0) usleep(200);
        if (i & 1) *at = realloc(*at, 16 + i % 1999);
        else {
            free(*at);
            *at = i & 2 ? malloc(16 + i % 999) : calloc(1, 16 + i % 777);
        }
    }
    for (int i = 0; i < 64; i++) free(held[i]);
}

static void *run(void *unused) {
    void *(*kept)[3] = malloc(BLOCKS * sizeof(*kept));
    churn();
    for (int i = 0; i < BLOCKS; i++) {
        kept[i][0] = malloc(4321);
        kept[i][1] = calloc(2, 2161);
        kept[i][2] = realloc(malloc(4323), 4324);
        void *gone = malloc(4325);
        KEEP(gone);
        free(gone);
    }
    pthread_barrier_wait(&done);
    while (lines() < 2) usleep(100);
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < 3; k++) free(kept[i][k]);
    return unused;
}

static void hear(void) {
    char line[16];
    if (read(0, line, sizeof(line)) < 1) _exit(1);
    __atomic_add_fetch(&told, 1, __ATOMIC_RELEASE);
}

int main(void) {
    pthread_t ids[THREADS];
    pthread_barrier_init(&done, NULL, THREADS + 1);
    for (int k = 0; k < THREADS; k++) pthread_create(&ids[k], NULL, run, NULL);
    hear();
    pthread_barrier_wait(&done);
    if (write(1, "made\n", 5) != 5) _exit(2);
    hear();
    for (int k = 0; k < THREADS; k++) pthread_join(ids[k], NULL);
    _exit(0);
}
