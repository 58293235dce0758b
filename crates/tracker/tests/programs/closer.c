// Closes all descriptors it does not know and opens its own file again and again, so that it gets the
// numbers; then goes on with new threads and new stacks. Prints the size of its file: it must not have grown.
#include "work.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

static void *thread(void *unused) {
    work(50);
    return unused;
}

__attribute__((noinline)) static void deep(int n) {
    void *block = malloc(200 + n);
    KEEP(block);
    free(block);
    if (n > 0) deep(n - 1);
    KEEP(block);
}

int main(int argc, char **argv) {
    work(100);
    for (int fd = 3; fd < 2000; fd++) close(fd);
    int last = -1;
    for (int n = 0; n < 1021 && argc > 1; n++) last = open(argv[1], O_RDWR | O_CREAT, 0600);
    pthread_t ids[40];
    for (int k = 0; k < 40; k++) pthread_create(&ids[k], NULL, thread, NULL);
    for (int k = 0; k < 40; k++) pthread_join(ids[k], NULL);
    deep(250);
    struct stat facts;
    if (fstat(last, &facts)) return 1;
    printf("made %ld size %ld\n", made, (long)facts.st_size);
    return 0;
}
