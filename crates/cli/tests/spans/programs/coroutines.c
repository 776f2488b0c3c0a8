/* Coroutines that take turns in the middle of their calls, each on a stack of its own. */
#include "note.h"
#include <pthread.h>
#include <ucontext.h>

#define TRACED __attribute__((noipa))
#define COROUTINES 5
#define STACK (64 << 10)

static __thread ucontext_t driver, of_each[COROUTINES];
static __thread int current, has_ended[COROUTINES];
static __thread int depth;

/* C: the thread goes on in the coroutine with a number, from 1 on, or in what drives them, 0. */
static void yield(void)
{
    int own = current;
    swapcontext(&of_each[own], &driver);
    note('C', "coroutine", own + 1);
}

TRACED int t_leaf(int n)
{
    note('E', "t_leaf", n);
    note('R', "t_leaf", 3 * n);
    return 3 * n;
}

TRACED int t_step(int n)
{
    note('E', "t_step", n);
    int value = t_leaf(n);
    if (n % 2)
        yield();
    if (n > 0)
        value += t_step(n - 1);
    yield();
    note('R', "t_step", value);
    return value;
}

TRACED int t_body(int n)
{
    note('E', "t_body", n);
    for (int turn = 0; turn < 2; turn++)
        t_step(n + turn);
    note('R', "t_body", n);
    return n;
}

static void body(void)
{
    int own = current;
    t_body(depth + own);
    has_ended[own] = 1;
    swapcontext(&of_each[own], &driver);
}

TRACED int t_resume(int n)
{
    note('E', "t_resume", n);
    current = n;
    note('C', "coroutine", n + 1);
    swapcontext(&driver, &of_each[n]);
    note('C', "coroutine", 0);
    note('R', "t_resume", n);
    return n;
}

TRACED int t_drive(int n)
{
    note('E', "t_drive", n);
    char *stacks = malloc(COROUTINES * STACK);
    depth = n;
    for (int at = 0; at < COROUTINES; at++) {
        getcontext(&of_each[at]);
        of_each[at].uc_stack.ss_sp = stacks + at * STACK;
        of_each[at].uc_stack.ss_size = STACK;
        of_each[at].uc_link = 0;
        makecontext(&of_each[at], body, 0);
        has_ended[at] = 0;
    }
    for (int left = 1; left;) {
        left = 0;
        for (int at = 0; at < COROUTINES; at++)
            if (!has_ended[at]) {
                t_resume(at);
                left = 1;
            }
    }
    note('N', "coroutines", 0);
    free(stacks);
    note('R', "t_drive", n);
    return n;
}

TRACED void *t_thread(void *argument)
{
    note('E', "t_thread", 0);
    for (long round = 0; round < (long)argument; round++)
        t_drive(round % 6);
    note('R', "t_thread", 0);
    return argument;
}

int main(int count, char **arguments)
{
    long n = count > 1 ? atoi(arguments[1]) : 3;
    begin_notes();
    pthread_t threads[2];
    for (int at = 0; at < 2; at++)
        pthread_create(&threads[at], 0, t_thread, (void *)(n + at));
    for (int at = 0; at < 2; at++)
        pthread_join(threads[at], 0);
    print_notes();
}
