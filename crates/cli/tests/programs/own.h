// What a test program says of itself, and how it waits: lines "name number" out, lines in, no sleeps.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline void say(const char *name, long value) {
    char line[128];
    int length = snprintf(line, sizeof line, "%s %ld\n", name, value);
    if (write(1, line, length) != length) _exit(99);
}

// Until a line or the end of standard input.
static inline void await(void) {
    char c;
    while (read(0, &c, 1) == 1 && c != '\n') {}
}

// A field "Name:   123 kB" of a status file or of smaps_rollup.
static inline long field_kib(const char *path, const char *name) {
    char line[256];
    long value = -1;
    FILE *file = fopen(path, "r");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
            value = atol(line + strlen(name) + 1);
    if (file) fclose(file);
    return value;
}

// Private pages of 4 KiB, all of them written to.
static inline char *touch(size_t mib) {
    char *memory = mmap(0, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) _exit(98);
    madvise(memory, mib << 20, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < mib << 20; at += 4096) memory[at] = 1;
    return memory;
}

static inline long clock_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
