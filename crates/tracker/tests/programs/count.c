// Allocates for ever and keeps the number in a shared file: to be killed. `touch`: until memory runs out.
#include "work.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (ftruncate(fd, 4096)) return 1;
    volatile long *counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int touch = argc > 2 && !strcmp(argv[2], "touch");
    void *held[64] = {0};
    for (long i = 0;; i++) {
        if (touch) {
            char *block = malloc(100000);
            memset(block, 1, 100000);
        } else {
            free(held[i & 63]);
            held[i & 63] = malloc(20000 + (i & 7));
            KEEP(held[i & 63]);
        }
        *counter = i + 1;
    }
}
