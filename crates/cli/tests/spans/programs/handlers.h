/* Stacks for signal handlers, above the stacks of the threads and below them. */
#ifndef HANDLERS_H
#define HANDLERS_H
#include <signal.h>
#include <sys/mman.h>

#define HANDLER_STACK (1 << 16)
static char *stacks_above;

static char *map_stacks(size_t count)
{
    void *mapped = mmap(0, count * HANDLER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? (char *)0 : (char *)mapped;
}

/* Before the threads begin: their stacks are mapped below it. */
static void handle(void (*handler)(int), size_t threads)
{
    stacks_above = map_stacks(threads);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGUSR2, &action, 0);
}

/* Gives the thread a stack for its handlers. What it maps is below its own stack once the gaps above it are full. */
static void use_handler_stack(int thread, int above)
{
    stack_t stack;
    char *memory = stacks_above + thread * HANDLER_STACK;
    while (!above && memory > (char *)&stack)
        memory = map_stacks(16);
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = memory;
    stack.ss_size = HANDLER_STACK;
    if (!memory || (memory > (char *)&stack) != above || sigaltstack(&stack, 0))
        abort();
}
#endif
