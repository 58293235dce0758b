/* Memory of every kind with a known content; prints where, answers each line with a sum over all of it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096UL

static uint64_t data[2048] = {1};
static uint64_t untouched_data[4096] = {2};
static uint64_t bss[2048];
const char rodata[] = "a constant that no copy holds";
/* A pointer table is relocated at the start and read-only afterwards. */
const char *const relro[512] = {rodata, rodata};

struct area {
    const char *name;
    uint64_t *start;
    size_t words;
};
static struct area areas[16];
static size_t count;

static void fill(const char *name, void *start, size_t bytes) {
    uint64_t *words = start;
    for (size_t i = 0; i < bytes / 8; i++) words[i] = (i + 1) * 0x9e3779b97f4a7c15UL + count;
    areas[count++] = (struct area){name, words, bytes / 8};
    printf("%s %p %zu\n", name, start, bytes);
}

static uint64_t sum(void) {
    uint64_t sum = 0;
    for (size_t a = 0; a < count; a++)
        for (size_t i = 0; i < areas[a].words; i++) sum = sum * 31 + areas[a].start[i];
    return sum;
}

static void *map(size_t bytes, int flags) {
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) abort();
    return start;
}

static void *wait_with_a_stack(void *unused) {
    uint64_t local[512];
    (void)unused;
    fill("stack", local, sizeof local);
    printf("ready\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%016lx\n", sum());
        fflush(stdout);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    fill("data", data, sizeof data);
    fill("bss", bss, sizeof bss);
    fill("heap", malloc(100000), 100000);
    fill("mmap", map(8 << 20, MAP_PRIVATE), 8 << 20);
    fill("shared", map(64 * PAGE, MAP_SHARED), 64 * PAGE);
    fill("excluded", map(4 << 20, MAP_PRIVATE), 4 << 20);
    /* One touched page in the middle of a pool of four. */
    char *sparse = map(1024 * PAGE, MAP_PRIVATE);
    sparse = (char *)(((uintptr_t)sparse + 16 * PAGE) & ~(16 * PAGE - 1));
    fill("sparse", sparse + PAGE, PAGE);
    char *readonly = map(4 * PAGE, MAP_PRIVATE);
    fill("readonly", readonly, 4 * PAGE);
    mprotect(readonly, 4 * PAGE, PROT_READ);
    printf("untouched %p %zu\n", map(64 << 20, MAP_PRIVATE), 64UL << 20);
    printf("untouched_data %p %zu\n", (void *)untouched_data, sizeof untouched_data);
    printf("rodata %p %zu\n", (const void *)rodata, sizeof rodata);
    printf("relro %p %zu\n", (const void *)relro, sizeof relro);
    printf("main %p 0\n", (void *)main);
    pthread_create(&thread, NULL, wait_with_a_stack, NULL);
    pthread_join(thread, NULL);
    return 0;
}
