/* floor INTERVAL_US PARTS PID...: wakes up and does, for each process, what PARTS names, and nothing else: the least
 * that any sampler pays. Parts: c CPU clock, m statm, s stat, t status; for each tick: n ns_last_pid, i sysinfo, M meminfo. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int kept(const char *pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s%s%s", pid, *pid ? "/" : "", name);
    return open(path, O_RDONLY);
}

int main(int argc, char **argv) {
    int us = atoi(argv[1]), n = argc - 3, files[3][256], pids[256];
    const char *parts = argv[2], *letters = "mst", *names[] = {"statm", "stat", "status"};
    int ticks = 6000000 / us, epoll = epoll_create1(0), last = kept("", "sys/kernel/ns_last_pid"), mem = kept("", "meminfo");
    char buffer[8192];
    struct epoll_event event;
    struct sysinfo info;
    double begin = 0;
    for (int i = 0; i < n; i++) {
        pids[i] = atoi(argv[i + 3]);
        for (int f = 0; f < 3; f++)
            files[f][i] = strchr(parts, letters[f]) ? kept(argv[i + 3], names[f]) : -1;
    }
    for (int tick = 0; tick < ticks + 10; tick++) {
        struct timespec span = {us / 1000000, us % 1000000 * 1000}, time;
        epoll_pwait2(epoll, &event, 1, &span, NULL);
        if (tick == 9)
            begin = cpu_us();
        if (strchr(parts, 'n') && pread(last, buffer, sizeof buffer, 0) < 0)
            return 1;
        if (strchr(parts, 'i'))
            sysinfo(&info);
        if (strchr(parts, 'M') && pread(mem, buffer, sizeof buffer, 0) < 0)
            return 1;
        for (int i = 0; i < n; i++) {
            if (strchr(parts, 'c') && clock_gettime((~pids[i] << 3) | 2, &time) != 0)
                return 1;
            for (int f = 0; f < 3; f++)
                if (files[f][i] >= 0 && pread(files[f][i], buffer, sizeof buffer, 0) <= 0)
                    return 1;
        }
    }
    double used = cpu_us() - begin;
    printf("%6d us %-5s %7.2f us per process-sample, %6.1f us per tick\n", us, parts, used / ticks / n, used / ticks);
}
