// Sleeps uninterruptibly: after vfork until its child is done, which says "ready" and ends with its input.
#include <unistd.h>

int main(void) {
    char byte;
    alarm(60);
    if (vfork() == 0) {
        (void)!write(1, "ready\n", 6);
        (void)!read(0, &byte, 1);
        _exit(0);
    }
    (void)!write(1, "awake\n", 6);
    pause();
    return 0;
}
