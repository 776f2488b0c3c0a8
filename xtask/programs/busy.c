/* Busy threads that check themselves: each computes every value twice, once through `step`. It runs until SIGTERM. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static volatile sig_atomic_t ended;

static void end(int number)
{
    (void) number;
    ended = 1;
}

__attribute__((noinline)) uint64_t step(uint64_t value, uint64_t by)
{
    value ^= value << 13;
    value ^= value >> 7;
    return (value ^ value << 17) + by;
}

static void *work(void *argument)
{
    uint64_t by = (uintptr_t) argument, value = 88172645463325252ull + by, same = value;
    uint64_t steps = 0;
    double sum = 0;
    while (!ended) {
        value = step(value, by);
        same ^= same << 13;
        same ^= same >> 7;
        same = (same ^ same << 17) + by;
        sum += 0.5;
        if (value != same || sum * 2 != (double) ++steps) {
            fprintf(stderr, "thread %lu: step %lu is wrong\n", (unsigned long) by, (unsigned long) steps);
            exit(1);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 20;
    pthread_t *all = calloc(threads, sizeof *all);
    signal(SIGTERM, end);
    for (int number = 0; number < threads; number++)
        if (pthread_create(&all[number], NULL, work, (void *) (uintptr_t) (number + 1)) != 0)
            return 2;
    puts("ready");
    fflush(stdout);
    for (int number = 0; number < threads; number++)
        pthread_join(all[number], NULL);
    puts("well");
    return 0;
}
