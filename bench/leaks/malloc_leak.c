/* Four blocks of 20,000 bytes a step that nobody frees. */
#include "pace.h"
int main(void) {
    for (int n = 0; n < 160; n++) {
        step(n, 160, 8);
        for (int block = 0; block < 4; block++) memset(malloc(20000), n, 20000);
    }
}
