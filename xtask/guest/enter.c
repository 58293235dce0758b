// enter GROUP UID PROGRAM ARGUMENTS…: becomes a member of a control group, then that user, then the program.
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[512];
    if (argc < 4) return 2;
    uid_t uid = atoi(argv[2]);
    snprintf(path, sizeof path, "%s/cgroup.procs", argv[1]);
    int group = open(path, O_WRONLY | O_CLOEXEC);
    if (group < 0 || write(group, "0", 1) != 1) return perror(path), 3;
    if (setgroups(0, 0) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) return perror("uid"), 3;
    execv(argv[3], argv + 3);
    return perror(argv[3]), 3;
}
