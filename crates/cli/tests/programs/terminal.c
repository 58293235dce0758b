// Tells how it stands to its terminal, then the size of the window for each line it reads.
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(void) {
    int parent = getppid();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("terminal %d%d%d foreground %d group %d session %d\n", isatty(0), isatty(1), isatty(2),
           tcgetpgrp(0) == getpgrp(), getpgid(parent) == getpgrp(), getsid(parent) == getsid(0));
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        struct winsize size;
        ioctl(0, TIOCGWINSZ, &size);
        printf("rows %d columns %d\n", size.ws_row, size.ws_col);
    }
    return 0;
}
