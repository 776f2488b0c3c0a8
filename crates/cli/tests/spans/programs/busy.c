#define _GNU_SOURCE
/* Threads that call functions, so many times or until a byte comes; and whether the code is as it was. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

extern const char __executable_start, etext;

static volatile long sink;
static _Thread_local long inner_calls, outer_calls;
static long limit;
static volatile int over;

NOINLINE long inner(long n)
{
    inner_calls++;
    return n * 3 + 1;
}

NOINLINE long outer(long n)
{
    outer_calls++;
    return inner(n) + (n % 2 ? inner(n + 1) : 0);
}

/* On a page where no thread is most of the time. */
#define FAR __attribute__((noinline, aligned(8192)))
FAR long far_one(long n) { return n / 3 - 1; }
NOINLINE long far_two(long n) { return n / 5 - 1; }
FAR long far_three(long n) { return n / 7 - 1; }

static void *work(void *argument)
{
    for (long n = 0; limit ? n < limit : !over; n++) {
        sink += outer(n);
        if (n % 1000000 == 0)
            sink += far_one(n) + far_two(n) + far_three(n);
    }
    printf("thread %d outer %ld inner %ld\n", gettid(), outer_calls, inner_calls);
    return argument;
}

static unsigned long code(void)
{
    unsigned long sum = 0;
    for (const char *at = &__executable_start; at < &etext; at++)
        sum = sum * 31 + (unsigned char)*at;
    return sum;
}

int main(int count, char **arguments)
{
    long before = code();
    pthread_t threads[4];
    int many = count > 1 ? atoi(arguments[1]) : 4;
    limit = count > 2 ? atol(arguments[2]) : 0;
    for (int thread = 0; thread < many; thread++)
        pthread_create(&threads[thread], 0, work, 0);
    puts("ready");
    fflush(stdout);
    char byte;
    if (limit == 0 && read(0, &byte, 1) < 0)
        return 1;
    over = 1;
    for (int thread = 0; thread < many; thread++)
        pthread_join(threads[thread], 0);
    // While it is traced, the program reads jumps in its code.
    if (limit == 0)
        puts(code() == before ? "the code is as it was" : "the code has changed");
    return 0;
}
