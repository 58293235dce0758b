// A parent that forks and execs. Each image writes `NAME PID LIVE` with the bytes it has itself at its end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *keep(long bytes) {
    char *block = malloc(bytes);
    memset(block, 1, 64);
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}

static void tell(const char *name, long live) {
    char line[128];
    int length = snprintf(line, sizeof(line), "%s %d %ld\n", name, getpid(), live);
    if (write(1, line, length) != length) _exit(1);
}

int main(int argc, char **argv) {
    if (argc > 1) { // the image after exec
        keep(70000);
        tell("fresh", 70000);
        _exit(0);
    }
    void *first = keep(1000000);
    keep(2000000);
    int status;
    pid_t child = fork();
    if (!child) {
        free(first);               // its parent's: no part of its own sums
        void *own = keep(300000);
        free(own);
        keep(40000);
        pid_t grandchild = fork();
        if (!grandchild) {
            keep(5000);
            tell("grandchild", 5000);
            _exit(0);
        }
        waitpid(grandchild, &status, 0);
        tell("child", 40000);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (!(child = fork())) {
        keep(9000000); // gone with the exec
        char *again[] = {argv[0], "again", NULL};
        execv(argv[0], again);
        _exit(1);
    }
    waitpid(child, &status, 0);
    tell("parent", 3000000);
    _exit(0);
}
