/* tree COUNT MIB: COUNT processes (this one included) with MIB MiB touched in each. Prints "ready" when all
 * are touched; then every process gives back and touches 16 pages about ten times a second, so that counters
 * change, until standard input ends. Not in step with any sampler: a tick right behind the wake-up of ten processes finds
 * the kernel's code in the caches and costs half, and which ticks do so is not to be a matter of luck. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANGED_BYTES = 16 * 4096, PERIOD_MS = 93 };

static char *touch(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("tree: mmap");
        exit(1);
    }
    memset(memory, 1, bytes);
    return memory;
}

static void work_until_stdin_ends(char *memory) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&input, 1, PERIOD_MS) == 0) {
        madvise(memory, CHANGED_BYTES, MADV_DONTNEED);
        memset(memory, 1, CHANGED_BYTES);
    }
}

int main(int argc, char **argv) {
    int count = argc == 3 ? atoi(argv[1]) : 0, ready[2];
    size_t bytes = argc == 3 ? strtoul(argv[2], NULL, 10) << 20 : 0;
    char byte = 0;
    if (count < 1 || bytes < CHANGED_BYTES || pipe(ready) != 0) {
        fprintf(stderr, "usage: tree COUNT MIB\n");
        return 2;
    }
    for (int child = 1; child < count; child++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("tree: fork");
            return 1;
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            char *memory = touch(bytes);
            if (write(ready[1], &byte, 1) != 1)
                return 1;
            work_until_stdin_ends(memory);
            return 0;
        }
    }
    char *memory = touch(bytes);
    for (int child = 1; child < count; child++)
        if (read(ready[0], &byte, 1) != 1)
            return 1;
    puts("ready");
    fflush(stdout);
    work_until_stdin_ends(memory);
    while (wait(NULL) > 0)
        ;
    return 0;
}
