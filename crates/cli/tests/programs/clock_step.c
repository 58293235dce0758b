// Preloaded into nilo: its wall clock is an hour ahead as soon as the file $CLOCK_STEP exists.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    const char *sign = getenv("CLOCK_STEP");
    if (!failed && clock == CLOCK_REALTIME && sign && !access(sign, F_OK)) time->tv_sec += 3600;
    return failed;
}
