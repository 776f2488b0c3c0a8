/* Calls that end in every way that C knows. */
#define _GNU_SOURCE
#include "note.h"
#include <pthread.h>
#include <setjmp.h>
#include <string.h>
#include "handlers.h"

#define TRACED __attribute__((noipa))

static __thread sigjmp_buf place;
static volatile int rounds;

TRACED int t_leaf(int n)
{
    note('E', "t_leaf", n);
    note('R', "t_leaf", 3 * n);
    return 3 * n;
}

/* Several returns. */
TRACED long t_many(int n)
{
    note('E', "t_many", n);
    if (n % 3 == 0) {
        note('R', "t_many", -7);
        return -7;
    }
    if (n % 3 == 1) {
        long value = t_leaf(n);
        note('R', "t_many", value + 1);
        return value + 1;
    }
    note('R', "t_many", n);
    return n;
}

TRACED int t_down(int n)
{
    note('E', "t_down", n);
    int value = n > 0 ? t_down(n - 1) + 1 : (int)t_many(rounds);
    note('R', "t_down", value);
    return value;
}

TRACED long t_tail(int n)
{
    note('E', "t_tail", n);
#ifdef __OPTIMIZE__
    note('T', "t_tail", 0);
    return t_many(n);
#else
    long value = t_many(n);
    note('R', "t_tail", value);
    return value;
#endif
}

/* Two functions that call each other by tail calls, in turn. */
TRACED int t_odd(int n);
TRACED int t_even(int n)
{
    note('E', "t_even", n);
    if (n == 0) {
        note('R', "t_even", 1);
        return 1;
    }
#ifdef __OPTIMIZE__
    note('T', "t_even", 0);
    return t_odd(n - 1);
#else
    int value = t_odd(n - 1);
    note('R', "t_even", value);
    return value;
#endif
}

TRACED int t_odd(int n)
{
    note('E', "t_odd", n);
    if (n == 0) {
        note('R', "t_odd", 0);
        return 0;
    }
#ifdef __OPTIMIZE__
    note('T', "t_odd", 0);
    return t_even(n - 1);
#else
    int value = t_even(n - 1);
    note('R', "t_odd", value);
    return value;
#endif
}

/* A loop from its first line. */
TRACED int t_loop(int n)
{
    do {
        n -= 2;
    } while (n > 0);
    note('E', "t_loop", n);
    note('R', "t_loop", n);
    return n;
}

TRACED int t_jump(int n)
{
    note('E', "t_jump", n);
    if (n == 0)
        siglongjmp(place, 1);
    int value = t_jump(n - 1) + 1;
    note('R', "t_jump", value);
    return value;
}

TRACED int t_catch(int n)
{
    note('E', "t_catch", n);
    if (sigsetjmp(place, 1) == 0)
        t_jump(n);
    else
        note('J', "t_catch", 0);
    int value = t_leaf(n);
    note('R', "t_catch", value);
    return value;
}

TRACED void t_signal(int n)
{
    note('E', "t_signal", n);
    t_leaf(n);
    if (n == SIGUSR2)
        siglongjmp(place, 1);
    note('R', "t_signal", 0);
}

TRACED int t_interrupted(int n)
{
    note('E', "t_interrupted", n);
    if (sigsetjmp(place, 1) == 0) {
        raise(SIGUSR1);
        if (n % 2)
            raise(SIGUSR2);
    } else {
        note('J', "t_interrupted", 0);
    }
    t_leaf(n);
    note('R', "t_interrupted", n);
    return n;
}

TRACED int t_round(int n)
{
    note('E', "t_round", n);
    rounds = n;
    int value = t_down(n % 5);
    value += (int)t_tail(n);
    value += t_even(n % 7);
    value += t_catch(n % 4);
    value += t_interrupted(n);
    note('R', "t_round", value);
    return value;
}

TRACED int t_leave(int n)
{
    note('E', "t_leave", n);
    t_leaf(n);
    if (n == 1) {
        note('D', "t_leave", 0);
        pthread_exit(0);
    }
    if (n == 2) {
        note('P', "t_leave", 0);
        print_notes();
        exit(0);
    }
    note('R', "t_leave", n);
    return n;
}

TRACED void *t_thread(void *argument)
{
    long n = (long)argument;
    note('E', "t_thread", 0);
    use_handler_stack(n % 4, n % 4 < 2);
    for (int round = 0; round < n; round++)
        t_round(round);
    t_leave((int)(n % 2));
    note('R', "t_thread", 0);
    return 0;
}

int main(int count, char **arguments)
{
    int n = count > 1 ? atoi(arguments[1]) : 3;
    begin_notes();
    handle(t_signal, 4);
    pthread_t threads[4];
    for (long at = 0; at < 4; at++)
        pthread_create(&threads[at], 0, t_thread, (void *)(n + at));
    for (int at = 0; at < 4; at++)
        pthread_join(threads[at], 0);
    t_round(n);
    t_leave(2);
}
