// Leaves argv[2] MiB behind: a "file" argv[3] in a tmpfs, a System V "segment", or nothing.
#include "own.h"
#include <fcntl.h>
#include <sys/shm.h>

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    size_t bytes = atol(argv[2]) << 20;
    if (!strcmp(argv[1], "file")) {
        int fd = open(argv[3], O_CREAT | O_EXCL | O_WRONLY, 0600);
        char *block = calloc(1, 1 << 20);
        for (size_t done = 0; done < bytes; done += 1 << 20)
            if (write(fd, block, 1 << 20) != 1 << 20) return 1;
    } else if (!strcmp(argv[1], "segment")) {
        int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
        char *memory = shmat(id, 0, 0);
        if (id < 0 || memory == (void *)-1) return 1;
        say("segment", id);
        memset(memory, 1, bytes);
    } else {
        munmap(touch(atol(argv[2])), bytes);
    }
    return 0;
}
