/* floor INTERVAL_MS COUNT RECORD COMMAND...: starts COMMAND, a tree of COUNT processes, and asks the kernel at each
 * interval what a fast tick of `nilo` asks of a tree whose processes all run: of each its CPU clock and `statm`, of the
 * machine the newest pid and free memory. Nothing is parsed, stored or looked for: no sampler that asks this costs
 * less. RECORD gets the ticks, the answers of single processes and the seconds. Ends with COMMAND. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024 };
static int pids[MOST], files[MOST], known;

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void add(int pid) {
    char path[64];
    for (int i = 0; i < known; i++)
        if (pids[i] == pid)
            return;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    must(known < MOST && (files[known] = open(path, O_RDONLY)) >= 0, "floor: a process");
    pids[known++] = pid;
}

/* The tree is flat: a process and its children. */
static void add_children(int parent) {
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    FILE *children = fopen(path, "r");
    must(children != NULL, "floor: children");
    while (fscanf(children, "%d", &pid) == 1)
        add(pid);
    fclose(children);
}

static void ask(int newest) {
    char buffer[256];
    struct sysinfo info;
    struct timespec cpu;
    for (int i = 0; i < known; i++)
        clock_gettime((~(clockid_t)pids[i] << 3) | 2, &cpu);
    must(pread(newest, buffer, 64, 0) > 0, "floor: ns_last_pid");
    for (int i = 0; i < known; i++)
        if (pread(files[i], buffer, sizeof buffer, 0) < 0)
            return; /* it ends */
    sysinfo(&info);
}

int main(int argc, char **argv) {
    must(argc > 4, "usage: floor INTERVAL_MS COUNT RECORD COMMAND...");
    int count = atoi(argv[2]);
    double interval_s = atof(argv[1]) / 1000, start_s, due_s;
    long ticks = 0, answers = 0;
    int child = fork(), status;
    must(child >= 0, "floor: fork");
    if (child == 0) {
        execvp(argv[4], argv + 4);
        perror("floor: exec");
        _exit(127);
    }
    int newest = open("/proc/sys/kernel/ns_last_pid", O_RDONLY), list = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    int ended = syscall(SYS_pidfd_open, child, 0);
    must(newest >= 0 && epoll_ctl(list, EPOLL_CTL_ADD, ended, &event) == 0, "floor: what a tick asks");
    add(child);
    start_s = due_s = now_s();
    for (;;) {
        due_s += interval_s;
        double left_s = due_s - now_s();
        struct timespec wait = {0};
        if (left_s > 0) {
            wait.tv_sec = left_s;
            wait.tv_nsec = (left_s - wait.tv_sec) * 1e9;
        }
        if (epoll_pwait2(list, &event, 1, &wait, NULL) != 0)
            break;
        if (known < count)
            add_children(child);
        ask(newest);
        ticks++;
        answers += known;
    }
    must(waitpid(child, &status, 0) == child, "floor: wait");
    FILE *record = fopen(argv[3], "w");
    must(record != NULL, "floor: record");
    fprintf(record, "%ld %ld %f\n", ticks, answers, now_s() - start_s);
    return fclose(record) != 0 || status != 0;
}
