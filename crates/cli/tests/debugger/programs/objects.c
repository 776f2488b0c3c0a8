#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

__thread int own = 5;
__thread struct { char padding[100]; long far; } large = {"", 77};
extern __thread int libs;

const char needle[] = "here is the needle in the hay";
static void *fault;
static int target;

static void handler(int signal, siginfo_t *info, void *context) {
    fault = info->si_addr;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    registers[REG_RAX] = (greg_t)&target;
}

static void stop(void) {}

static void *worker(void *unused) {
    prctl(PR_SET_NAME, "wor<k&er");
    own = 6;
    large.far = 78;
    libs += 10;
    stop();
    return 0;
}

int main(void) {
    pthread_t thread;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    libs++;
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    stop();
    __asm__ volatile("movl $0, (%0)" : : "a"(0x1234L) : "memory");
    fprintf(stderr, "fault %p\n", fault);
    return 0;
}
