// `short N`: N threads that live shortly, four at a time; `many N`: N threads at once; `after`: frees in a
// destructor that runs after all others; `exit N`: threads that end with the bare system call.
#include "work.h"
#include <pthread.h>
#include <sys/syscall.h>

static pthread_barrier_t barrier;
static pthread_key_t key;

static void *brief(void *unused) {
    work(100);
    return unused;
}

static void *meeting(void *unused) {
    work(10);
    pthread_barrier_wait(&barrier);
    work(10);
    return unused;
}

static void late(void *block) {
    // Asked for again in each round: frees in the last one, when others are done.
    static __thread int rounds;
    if (++rounds < 4) pthread_setspecific(key, block);
    else free(block);
}

static void *holder(void *unused) {
    pthread_setspecific(key, malloc(31234));
    return unused;
}

static void *vanish(void *unused) {
    work(20);
    syscall(SYS_exit, 0);
    return unused;
}

int main(int argc, char **argv) {
    int count = argc > 2 ? atoi(argv[2]) : 1;
    pthread_t *ids = malloc(sizeof(pthread_t) * (unsigned)count);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    if (!strcmp(argv[1], "short")) {
        for (int i = 0; i < count; i += 4) {
            for (int k = 0; k < 4; k++) pthread_create(&ids[k], NULL, brief, NULL);
            for (int k = 0; k < 4; k++) pthread_join(ids[k], NULL);
        }
    } else if (!strcmp(argv[1], "many")) {
        pthread_barrier_init(&barrier, NULL, (unsigned)count);
        for (int k = 0; k < count; k++) if (pthread_create(&ids[k], &small, meeting, NULL)) return 1;
        for (int k = 0; k < count; k++) pthread_join(ids[k], NULL);
    } else if (!strcmp(argv[1], "after")) {
        pthread_key_create(&key, late);
        for (int k = 0; k < count; k++) {
            pthread_create(&ids[0], NULL, holder, NULL);
            pthread_join(ids[0], NULL);
        }
    } else {
        pthread_attr_setdetachstate(&small, PTHREAD_CREATE_JOINABLE);
        for (int k = 0; k < count; k++) {
            pthread_create(&ids[0], &small, vanish, NULL);
            pthread_join(ids[0], NULL);
        }
    }
    printf("made %ld\n", made);
    return 0;
}
