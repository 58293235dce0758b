/* A thread in each step that is joined. */
#include <pthread.h>
#include "pace.h"
static void *work(void *nothing) {
    volatile char used[100000];
    memset((void *)used, 1, sizeof used);
    return used[0] ? nothing : NULL;
}
int main(void) {
    for (int n = 0; n < 160; n++) {
        step(n, 160, 8);
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
    }
}
