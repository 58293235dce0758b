// Children of all kinds. Each process prints its id and what it allocated itself.
#include "work.h"
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static void child(int count) {
    made = 0;
    work(count);
    printf("child %d made %ld\n", getpid(), made);
    fflush(stdout);
    _exit(0);
}

static void await(pid_t pid) {
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) abort();
}

static void *busy(void *stop) {
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) work(10);
    return NULL;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    work(1000);
    pid_t pid;
    char *true_args[] = {"/bin/true", NULL};
    int times = argc > 2 ? atoi(argv[2]) : 1;
    if (!strcmp(argv[1], "fork")) {
        for (int i = 0; i < times; i++) {
            if (!(pid = fork())) child(500);
            work(10);
            await(pid);
        }
    } else if (!strcmp(argv[1], "storm")) {
        for (int i = 0; i < times; i++) if (!(pid = fork())) child(50);
        while (wait(NULL) > 0);
    } else if (!strcmp(argv[1], "raw")) {
        for (int i = 0; i < times; i++) {
            if (!(pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))) child(500);
            await(pid);
        }
    } else if (!strcmp(argv[1], "grandchild")) {
        if (!(pid = fork())) {
            if (!(pid = fork())) child(300);
            await(pid);
            child(200);
        }
        await(pid);
    } else if (!strcmp(argv[1], "threaded")) {
        int stop = 0;
        pthread_t ids[3];
        for (int k = 0; k < 3; k++) pthread_create(&ids[k], NULL, busy, &stop);
        for (int i = 0; i < times; i++) {
            if (!(pid = fork())) child(500);
            await(pid);
        }
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        for (int k = 0; k < 3; k++) pthread_join(ids[k], NULL);
    } else if (!strcmp(argv[1], "vfork")) {
        for (int i = 0; i < times; i++) {
            if (!(pid = vfork())) {
                void *block = malloc(40404); // in the parent's memory
                KEEP(block);
                free(block);
                execv("/bin/true", true_args);
                _exit(1);
            }
            await(pid);
            if (posix_spawn(&pid, "/bin/true", NULL, NULL, true_args, environ)) return 1;
            await(pid);
        }
        work(100);
    } else if (!strcmp(argv[1], "exec")) {
        char *again[] = {argv[0], "none", NULL};
        printf("child %d made %ld\n", getpid(), made);
        execv(argv[0], again);
    }
    printf("parent %d made %ld\n", getpid(), made);
    return 0;
}
