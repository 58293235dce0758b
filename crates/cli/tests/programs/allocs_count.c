// Allocates for ever and counts in a shared file, after each allocation: `allocs_count FILE [touch]`. With `touch` nothing is
// freed and all is written to, until memory ends.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 8)) return 1;
    volatile long *made = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if ((void *)made == MAP_FAILED) return 1;
    void *held[64] = {0};
    for (long i = 0;; i++) {
        if (argc > 2) {
            char *block = malloc(100000);
            if (!block) return 2;
            memset(block, 1, 100000);
        } else {
            free(held[i & 63]);
            held[i & 63] = malloc(20000 + (i & 7));
            __asm__ volatile("" ::"r"(held[i & 63]) : "memory");
        }
        *made = i + 1;
    }
}
