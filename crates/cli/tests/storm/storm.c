/* Fifty threads that compute and check, under signals, with a library that comes and goes and children that are forked.
   Ends, once the file that the first argument names is there, with status 0 when every result was right.  The second
   argument is the library, the third a file for what it says at its end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 50 };

static atomic_int stop;
/* Signals that the system keeps one by one, and of which it keeps only so many for all that a user runs. */
enum { MOST_WAITING = 1000 };
static atomic_ulong waiting;
static atomic_ulong rounds, sent, signals, loads, forks, wrong;
static _Thread_local volatile unsigned long in_handler;

__attribute__((noinline)) uint64_t mix(uint64_t value, unsigned step) {
    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9u + 2 * (uint64_t)step;
    value ^= value >> 27;
    return value;
}

__attribute__((noinline)) uint64_t leaf(uint64_t value) { return value * 3 + 1; }

__attribute__((noinline)) uint64_t recurse(uint64_t value, unsigned depth) {
    if (depth == 0)
        return leaf(value);
    return recurse(mix(value, depth), depth - 1) ^ depth;
}

static uint64_t one_round(uint64_t seed) {
    uint64_t sum = seed;
    for (unsigned step = 0; step < 40; step++)
        sum += recurse(mix(sum, step), step % 7);
    return sum;
}

/* What a round gives is known from one done before anybody traced. */
static uint64_t expected[16];

__attribute__((noinline)) void handled(int number) {
    in_handler++;
    signals++;
    if (number == SIGRTMIN)
        waiting--;
    uint64_t result = recurse(number, 3);
    static _Thread_local uint64_t before[128];
    if (before[number] && result != before[number])
        wrong++;
    before[number] = result;
}

static void on_signal(int number) { handled(number); }

static void *work(void *argument) {
    unsigned number = (unsigned)(uintptr_t)argument;
    while (!stop) {
        unsigned which = number++ % 16;
        if (one_round(which) != expected[which])
            wrong++;
        rounds++;
    }
    return NULL;
}

static void later(struct timespec *time, long nanoseconds) {
    time->tv_nsec += nanoseconds;
    if (time->tv_nsec >= 1000000000) {
        time->tv_nsec -= 1000000000;
        time->tv_sec++;
    }
}

static void *shoot(void *argument) {
    pthread_t *threads = argument;
    /* Ten thousand a second, although fifty threads want the cpus: where that is allowed. */
    struct sched_param priority = {.sched_priority = 1};
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
    prctl(PR_SET_TIMERSLACK, 1);
    struct timespec next, now;
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (!stop) {
        int number = sent % 2 || waiting >= MOST_WAITING ? SIGUSR1 : SIGRTMIN;
        waiting += number == SIGRTMIN;
        pthread_kill(threads[sent++ % THREADS], number);
        later(&next, 100000);
        /* What has been missed is made up for, but not where the process stood for long. */
        clock_gettime(CLOCK_MONOTONIC, &now);
        struct timespec latest = next;
        later(&latest, 1000000000);
        if (latest.tv_sec < now.tv_sec || (latest.tv_sec == now.tv_sec && latest.tv_nsec < now.tv_nsec)) {
            next = now;
            later(&next, 100000);
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return NULL;
}

static void *load(void *argument) {
    struct timespec pause = {0, 20000000};
    while (!stop) {
        void *library = dlopen(argument, RTLD_NOW);
        if (!library) {
            wrong++;
            return NULL;
        }
        uint64_t (*plugin)(uint64_t) = (uint64_t (*)(uint64_t))dlsym(library, "plugin_work");
        for (unsigned i = 0; i < 100; i++)
            if (plugin(i) != i * 7 + 5)
                wrong++;
        dlclose(library);
        loads++;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void *breed(void *argument) {
    (void)argument;
    struct timespec pause = {0, 20000000};
    while (!stop) {
        pid_t child = fork();
        if (child == 0)
            _exit(one_round(3) == expected[3] && one_round(5) == expected[5] ? 0 : 1);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            wrong++;
        forks++;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    for (unsigned which = 0; which < 16; which++)
        expected[which] = one_round(which);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    static pthread_t threads[THREADS];
    for (uintptr_t number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, work, (void *)number);
    pthread_t shooter, loader, breeder;
    pthread_create(&shooter, NULL, shoot, threads);
    pthread_create(&loader, NULL, load, arguments[2]);
    pthread_create(&breeder, NULL, breed, NULL);
    puts("ready");
    fflush(stdout);
    /* Until a file of that name is there. */
    struct timespec pause = {0, 20000000};
    while (access(arguments[1], F_OK) != 0)
        nanosleep(&pause, NULL);
    stop = 1;
    for (unsigned number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    pthread_join(shooter, NULL);
    pthread_join(loader, NULL);
    pthread_join(breeder, NULL);
    if (count > 3 && !freopen(arguments[3], "w", stdout))
        return 2;
    printf("rounds %lu sent %lu signals %lu loads %lu forks %lu wrong %lu\n", rounds, sent, signals, loads, forks,
           wrong);
    return wrong != 0;
}
