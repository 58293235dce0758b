/* Has some memory, and forks at each line: the child waits for the end of its parent. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void) {
    const size_t bytes = 16 << 20;
    char *area = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) return 1;
    madvise(area, bytes, MADV_NOHUGEPAGE);
    memset(area, 7, bytes);
    printf("area %p %zu\nready\n", (void *)area, bytes);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pause();
        }
        puts("forked");
        fflush(stdout);
    }
    return 0;
}
