// Who may read and stop whom, tried without nilo. Each answer is a line "name errno", 0 when it worked.
//   access wait                                  prints "PID ADDRESS" and waits for the end of its input
//   access try SAME-PID ADDRESS OTHER-PID ADDRESS   a process of our user that we did not start, and a stranger's
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char witness[] = "nilometer guest";

static int read_memory(pid_t pid, unsigned long address) {
    char copy[sizeof witness] = "";
    struct iovec here = {copy, sizeof copy}, there = {(void *)address, sizeof copy};
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != sizeof copy) return errno;
    return strcmp(copy, witness) ? EIO : 0;
}

// As a debugger that leaves no trace: seize, interrupt, see it stopped, let go.
static int stop(pid_t pid) {
    int status;
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) || ptrace(PTRACE_INTERRUPT, pid, 0, 0)) return errno;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return EIO;
    return ptrace(PTRACE_DETACH, pid, 0, 0) ? errno : 0;
}

static void wait_for_end(void) {
    char c;
    printf("%d %lu\n", getpid(), (unsigned long)witness);
    fflush(stdout);
    while (read(0, &c, 1) > 0) {}
}

int main(int argc, char **argv) {
    if (argc == 2) return wait_for_end(), 0;
    if (argc != 6) return 2;
    pid_t child = fork();
    if (!child) for (;;) pause();
    printf("read-memory-own-child %d\n", read_memory(child, (unsigned long)witness));
    printf("stop-own-child %d\n", stop(child));
    printf("read-memory-same-uid %d\n", read_memory(atoi(argv[2]), strtoul(argv[3], 0, 10)));
    printf("read-memory-other-uid %d\n", read_memory(atoi(argv[4]), strtoul(argv[5], 0, 10)));
    kill(child, SIGKILL);
    return 0;
}
