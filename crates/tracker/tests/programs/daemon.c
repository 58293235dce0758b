// A daemon: its parents are gone, it has its own session, all descriptors are closed. It says into a file how far it
// is, waits for a second file to appear, goes on allocating, and says so.
#include "work.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static void say(const char *path, const char *text) {
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) || rename(temporary, path)) _exit(1);
}

int main(int argc, char **argv) {
    if (argc < 4) return 1;
    work(100);
    if (fork()) return 0;
    setsid();
    if (fork()) _exit(0);
    closefrom(0);
    char text[64];
    work(1000);
    snprintf(text, sizeof text, "pid %d", getpid());
    say(argv[1], text);
    struct stat facts;
    while (stat(argv[2], &facts)) nanosleep(&(struct timespec){0, 1000000}, NULL);
    work(200000);
    say(argv[3], "done");
    return 0;
}
