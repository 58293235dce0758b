/* floor INTERVAL_US PID...: wakes up, reads one status file of each process with pread, nothing else: what any sampler pays. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int c, char **v) {
    int us = atoi(v[1]), n = c - 2, f[256], ticks = 6000000 / us;
    char b[8192], p[64];
    struct timespec t; double a = 0, z;
    for (int i = 0; i < n; i++) { snprintf(p, 64, "/proc/%s/status", v[i + 2]); f[i] = open(p, O_RDONLY); }
    for (int i = 0; i < ticks + 10; i++) {
        usleep(us);
        if (i == 9) { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); a = t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
        for (int k = 0; k < n; k++) if (pread(f[k], b, sizeof b, 0) < 0) return 1;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); z = t.tv_sec * 1e6 + t.tv_nsec / 1e3;
    printf("%d us: %.2f us per process-sample, %.1f us per tick\n", us, (z - a) / ticks / n, (z - a) / ticks);
}
