#include <stdio.h>
#include <unistd.h>

static void wait_for_word(void) {
    for (;;)
        pause();
}

int main(void) {
    puts("here");
    fflush(stdout);
    wait_for_word();
}
