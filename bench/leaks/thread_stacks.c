/* One thread more with each step, each with 100,000 bytes of its stack in use. */
#include <pthread.h>
#include "pace.h"
static void *sit(void *nothing) {
    volatile char used[100000];
    memset((void *)used, 1, sizeof used);
    pause();
    return used[0] ? nothing : NULL;
}
int main(void) {
    for (int n = 0; n < 160; n++) {
        step(n, 160, 8);
        pthread_t thread;
        pthread_create(&thread, NULL, sit, NULL);
    }
}
