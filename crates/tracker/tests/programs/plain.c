// Says that it ran, and whether LD_PRELOAD is in its environment.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *block = malloc(35000);
    const char *preload = getenv("LD_PRELOAD");
    printf("ran %d %s\n", block != NULL, preload ? preload : "none");
    free(block);
    return 0;
}
