/* Ways to enter and to leave functions: recursion, pointers, callbacks of the library, longjmp, signal handlers, tail calls. */
#include "flow.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

static volatile long sink;
static jmp_buf here;

NOINLINE static long fib(long n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

NOINLINE static int compare(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

NOINLINE static void sort(int seed)
{
    int numbers[20];
    for (int at = 0; at < 20; at++)
        numbers[at] = (at * 7 + seed) % 20;
    qsort(numbers, 20, sizeof *numbers, compare);
    sink += numbers[3];
}

NOINLINE static void add(long n) { sink += n; }
NOINLINE static void subtract(long n) { sink -= n; }
static void (*const operations[])(long) = {add, subtract};

NOINLINE static long choose(long n)
{
    switch (n % 9) {
    case 0: return 5;
    case 1: add(n); return 6;
    case 2: subtract(n); break;
    case 3: return fib(4);
    case 4: add(1); break;
    case 5: sink ^= n; break;
    case 6: subtract(2); return 1;
    default: break;
    }
    return n;
}

NOINLINE static void deep(int n)
{
    volatile char room[64];
    room[n] = 1;
    if (n == 0)
        longjmp(here, 1);
    deep(n - 1);
    sink += room[n];
}

NOINLINE static void jumps(int n)
{
    int depth = log_depth();
    if (setjmp(here) == 0) {
        add(n);
        deep(n);
    }
    log_unwind(depth);
    subtract(n);
}

NOINLINE static void handler(int signal)
{
    add(signal);
}

NOINLINE static void signals(void)
{
    raise(SIGUSR1);
    raise(SIGUSR2);
    subtract(1);
}

#ifdef TAIL_CALLS
UNTOLD static long odd(long n);

UNTOLD static long even(long n)
{
    log_enter((void *)even);
    sink++;
    log_leave((void *)even);
    return n == 0 ? 1 : odd(n - 1);
}

UNTOLD static long odd(long n)
{
    log_enter((void *)odd);
    sink--;
    log_leave((void *)odd);
    return n == 0 ? 0 : even(n - 1);
}
#endif

int main(int count, char **arguments)
{
    static char stack[1 << 16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handler};
    sigaltstack(&other, 0);
    sigaction(SIGUSR1, &action, 0);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, 0);
    int rounds = count > 1 ? atoi(arguments[1]) : 3;
    for (int round = 0; round < rounds; round++) {
        sink += fib(9);
        sort(round);
        for (long n = 0; n < 20; n++) {
            operations[n % 2](n);
            sink += choose(n);
        }
        jumps(5 + round);
        signals();
#ifdef TAIL_CALLS
        sink += even(7 + round);
#endif
    }
    return 0;
}
