#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int usr1;
static int ends[2];

static void count(int signal) { usr1++; }

void between(void) {}

static void *reader(void *unused) {
    char byte;
    return (void *)read(ends[0], &byte, 1);
}

int main(void) {
    syscall(SYS_getppid);
    syscall(SYS_getppid);
    syscall(SYS_gettid);
    pthread_t thread;
    pipe(ends);
    pthread_create(&thread, 0, reader, 0);
    for (int i = 0; i < 3; i++)
        between();
    write(ends[1], "", 1);
    pthread_join(thread, 0);
    signal(SIGUSR1, count);
    raise(SIGUSR1);
    fprintf(stderr, "usr1 %d\n", usr1);
    return 0;
}
