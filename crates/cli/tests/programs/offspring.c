// Leaves processes behind and answers one line for each line it reads:
//   orphans N           N grandchildren lose their parent, then end; answers when all have ended
//   daemon              a double fork with a session of its own that holds no descriptor; "daemon PID"
//   clinging            the same, but it keeps standard output
//   exit CODE           ends
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void orphans(int how_many) {
    int stay[2], gone[2];
    char byte;
    if (pipe(stay) || pipe(gone)) exit(99);
    for (int i = 0; i < how_many; i++) {
        int parent = fork();
        if (parent == 0) {
            close(stay[1]);
            if (fork() == 0) (void)!read(stay[0], &byte, 1); // until the grandparent says go
            _exit(0);
        }
        waitpid(parent, NULL, 0);
    }
    close(gone[1]);
    close(stay[1]);
    (void)!read(gone[0], &byte, 1); // the last of them held the other end
    close(stay[0]);
    close(gone[0]);
    puts("orphaned");
}

static void daemon_with(int keep_output) {
    int tell[2], pid = 0;
    if (pipe(tell)) exit(99);
    int parent = fork();
    if (parent == 0) {
        setsid();
        if (fork() == 0) {
            pid = getpid();
            (void)!write(tell[1], &pid, sizeof pid);
            for (int fd = 0; fd < 64; fd++)
                if (!(keep_output && fd == 1)) close(fd);
            for (;;) pause();
        }
        _exit(0);
    }
    waitpid(parent, NULL, 0);
    (void)!read(tell[0], &pid, sizeof pid);
    close(tell[0]);
    close(tell[1]);
    printf("daemon %d\n", pid);
}

int main(void) {
    char line[256], word[32];
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready %d %d\n", (int)getpid(), (int)getppid());
    while (fgets(line, sizeof line, stdin)) {
        int a = 0;
        if (sscanf(line, "%31s %d", word, &a) < 1) continue;
        if (!strcmp(word, "orphans")) orphans(a);
        else if (!strcmp(word, "daemon")) daemon_with(0);
        else if (!strcmp(word, "clinging")) daemon_with(1);
        else if (!strcmp(word, "exit")) return a;
    }
    return 0;
}
