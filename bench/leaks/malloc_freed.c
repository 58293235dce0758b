/* The same blocks, freed within the step. */
#include "pace.h"
int main(void) {
    for (int n = 0; n < 160; n++) {
        step(n, 160, 8);
        char *blocks[4];
        for (int block = 0; block < 4; block++) blocks[block] = memset(malloc(20000), n, 20000);
        for (int block = 0; block < 4; block++) free(blocks[block]);
    }
}
