// Closes every descriptor with close_range in the child of a fork, and takes the numbers for its own file; the child and
// its thread go on allocating. Prints what each made, and the size of the file: it must not have grown.
#include "work.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void *thread(void *unused) {
    work(300);
    return unused;
}

static void child(const char *path) {
    made = 0;
    syscall(SYS_close_range, 3, ~0U, 0);
    int last = -1;
    for (int n = 3; n < 1020; n++) last = open(path, O_RDWR | O_CREAT, 0600);
    work(500);
    pthread_t ids[8];
    for (int k = 0; k < 8; k++) pthread_create(&ids[k], NULL, thread, NULL);
    for (int k = 0; k < 8; k++) pthread_join(ids[k], NULL);
    struct stat facts;
    if (fstat(last, &facts)) _exit(1);
    printf("child %d made %ld size %ld\n", getpid(), made, (long)facts.st_size);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv) {
    work(100);
    for (int n = 0; n < 3 && argc > 1; n++) {
        pid_t pid = fork();
        if (!pid) child(argv[1]);
        int status;
        if (waitpid(pid, &status, 0) != pid || status) return 2;
    }
    printf("parent %d made %ld size 0\n", getpid(), made);
    return 0;
}
