// Forked children that cannot report to a recorder, for want of file descriptors, and one that can. Writes `unheard N`, and
// `live N` with the bytes that the parent and the last child have at their ends.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNCONNECTED = 3, WITHOUT_FILES = 2, OWN = 500000, CHILDS = 70000 };

static void *keep(long bytes) {
    char *block = malloc(bytes);
    if (!block) _exit(1);
    memset(block, 1, 64);
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}

// The tracker's own file; a child closes it before it makes another.
static int control_file(void) {
    DIR *folder = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300], target[300] = {0};
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "nilo-control")) found = atoi(entry->d_name);
    }
    if (folder) closedir(folder);
    return found;
}

// A child that may open descriptors below `limit`, or as its parent; its first allocation is after that.
static void child(long limit) {
    int status;
    pid_t pid = fork();
    if (!pid) {
        struct rlimit few = {limit, limit};
        if (limit >= 0 && setrlimit(RLIMIT_NOFILE, &few)) _exit(2);
        keep(CHILDS);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status) _exit(3);
}

int main(void) {
    keep(OWN);
    int control = control_file();
    if (control < 0) return 4;
    while (dup(0) < control); // none is free below it
    for (int i = 0; i < UNCONNECTED; i++) child(0);
    for (int i = 0; i < WITHOUT_FILES; i++) child(control + 1); // one: for the connection
    child(-1);
    char line[100];
    int length = snprintf(line, sizeof(line), "unheard %d\nlive %d\n", UNCONNECTED + WITHOUT_FILES, OWN + CHILDS);
    return write(1, line, length) == length ? 0 : 5;
}
