#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct { char pad; char odd[7]; long words[2]; } data __attribute__((aligned(16)));
long number, other;

void ready(void) {}

void store(long value) { number = value; }

long load(void) { return number; }

void *worker(void *argument) {
    store((long)argument);
    return 0;
}

int main(void) {
    ready();
    store(1);
    load();
    /* A child has its own memory, and nobody watches it. */
    if (fork() == 0) {
        store(100);
        _exit(0);
    }
    wait(0);
    for (long i = 2; i < 5; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, worker, (void *)i);
        pthread_join(thread, 0);
    }
    memcpy(data.odd, "abcdef", 7);
    data.words[1] = 7;
    ready();
    store(9);
    fprintf(stderr, "number %ld\n", number);
    return 0;
}
