#include <signal.h>
#include <stdlib.h>

static void handler(int signal, siginfo_t *info, void *context) {
    exit(info->si_addr == (void *)0x1234 ? 0 : 1);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    *(volatile int *)0x1234 = 0;
    return 2;
}
