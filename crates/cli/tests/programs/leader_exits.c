// The first thread leaves, a second one goes on and takes 100 MiB.
#include "own.h"

static pthread_t leader;

static void *go_on(void *unused) {
    pthread_join(leader, 0);
    touch(100);
    say("ready", getpid());
    await();
    say("hwm", field_kib("/proc/thread-self/status", "VmHWM"));
    exit(0);
    return unused;
}

int main(void) {
    pthread_t other;
    leader = pthread_self();
    pthread_create(&other, 0, go_on, 0);
    pthread_exit(0);
}
