// Heaps whose truth malloc tells itself: where_malloc fragment | held MIB | maps FILE MIB SHM MIB.
#include "own.h"

#include <fcntl.h>
#include <malloc.h>

#define THREADS 8
#define KEPT 4000
static pthread_barrier_t filled, counted;
static volatile char *volatile large;

static void *fragment(void *seed) {
    void **kept = calloc(KEPT, sizeof *kept);
    unsigned long x = (unsigned long)seed * 2654435761u + 1;
    for (int round = 0; round < 20 * KEPT; round++) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        int i = (x >> 33) % KEPT;
        free(kept[i]);
        size_t size = 1 + (x >> 40) % 9000;
        kept[i] = (x >> 20) % 3 ? memset(malloc(size), 1, size) : NULL;
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&counted);
    return kept;
}

static void fragment_all(void) {
    pthread_t thread;
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&counted, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++) pthread_create(&thread, NULL, fragment, (void *)(i + 1));
    pthread_barrier_wait(&filled);
    large = malloc(5 << 20);
    for (size_t at = 0; at < 5 << 20; at++) large[at] = 1;
}

// Blocks that are too small for mappings of their own, all freed but the last: nothing can be cut off the end.
static void held(size_t mib) {
    size_t count = mib * 16;
    char **block = malloc((count + 1) * sizeof *block);
    for (size_t i = 0; i <= count; i++) block[i] = memset(malloc(65536 - 16), 1, 65536 - 16);
    for (size_t i = 0; i < count; i++) free(block[i]);
}

static void map(const char *path, size_t mib, int shared) {
    int file = open(path, O_RDWR);
    int flags = shared ? MAP_SHARED : MAP_PRIVATE;
    volatile char *memory = mmap(0, mib << 20, PROT_READ | (shared ? PROT_WRITE : 0), flags, file, 0);
    if (memory == MAP_FAILED) _exit(98);
    for (size_t at = 0; at < mib << 20; at += 4096) shared ? (memory[at] = 1) : memory[at];
}

int main(int count, char **words) {
    if (!strcmp(words[1], "fragment")) fragment_all();
    if (!strcmp(words[1], "held")) held(atol(words[2]));
    if (count > 5) map(words[2], atol(words[3]), 0), map(words[4], atol(words[5]), 1);
    struct mallinfo2 info = mallinfo2();
    say("uordblks", info.uordblks);
    say("fordblks", info.fordblks);
    say("hblkhd", info.hblkhd);
    say("ready", getpid());
    await();
    return 0;
}
