// Preloaded: the second mapping of 32 MiB (with numpy's library for matrices, the first that products fill) begins at a
// multiple of 4 GiB beside the libraries.
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { POOL_BYTES = 32 << 20 };

static void *ask(void *where, size_t bytes, int protection, int flags, int file, off_t offset) {
    return (void *)syscall(SYS_mmap, where, bytes, protection, flags, file, offset);
}

void *mmap(void *where, size_t bytes, int protection, int flags, int file, off_t offset) {
    static int pools;
    if (!where && file == -1 && bytes == POOL_BYTES && pools++ == 1) {
        void *round = (void *)((uintptr_t)&ask >> 32 << 32);
        void *there = ask(round, bytes, protection, flags | MAP_FIXED_NOREPLACE, file, offset);
        if (there == round) return there; // else the libraries themselves are there
    }
    return ask(where, bytes, protection, flags, file, offset);
}
