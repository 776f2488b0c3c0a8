/* The log of a program whose compiler tells of each entry and exit (-finstrument-functions). It is printed at the end. */
#include <stdio.h>

#define UNTOLD __attribute__((no_instrument_function, noinline))

static struct { void *function; int is_entry; } log_of_calls[100000];
static int log_length, log_open;

#ifdef __cplusplus
extern "C" {
#endif

UNTOLD void log_enter(void *function)
{
    log_of_calls[log_length].function = function;
    log_of_calls[log_length++].is_entry = 1;
    log_open++;
}

UNTOLD void log_leave(void *function)
{
    log_of_calls[log_length++].function = function;
    log_open--;
}

/* How many calls are open. */
UNTOLD int log_depth(void)
{
    return log_open;
}

/* Calls were left without an exit: so many are open. */
UNTOLD void log_unwind(int depth)
{
    while (log_open > depth)
        log_leave(0);
}

UNTOLD void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    log_enter(function);
}

UNTOLD void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    log_leave(function);
}

__attribute__((no_instrument_function, destructor)) static void log_print(void)
{
    for (int at = 0; at < log_length; at++)
        printf("%c %p\n", log_of_calls[at].is_entry ? '>' : '<', log_of_calls[at].function);
}

#ifdef __cplusplus
}
#endif
