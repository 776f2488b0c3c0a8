/* Random calls, the same in every run: plain, inlined, recursive, through a library, from qsort, in signal handlers. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hop(int (*)(int, unsigned), int, unsigned);
int hop_far(int (*)(int, unsigned), int, unsigned);

#define APART __attribute__((noinline, noclone))

static volatile unsigned total;
static unsigned handler_seed;
static int handler_depth;

APART void leaf(unsigned seed)
{
    total += seed;
    __asm__ volatile("" ::: "memory");
}

static unsigned next(unsigned seed)
{
    return seed * 1664525 + 1013904223;
}

static int walk(int depth, unsigned seed);

static inline __attribute__((always_inline)) int inner(int depth, unsigned seed)
{
    int got = walk(depth - 1, next(seed ^ 5));
    total += got;
    return got + 1;
}

static inline __attribute__((always_inline)) int outer(int depth, unsigned seed)
{
    return inner(depth, seed + 1) + total;
}

APART static int straight(int depth, unsigned seed)
{
    int got = walk(depth - 1, next(seed));
    return got * 2 + 1;
}

APART static int inlined(int depth, unsigned seed)
{
    return outer(depth, seed) ^ 1;
}

APART static int roomy(int depth, unsigned seed)
{
    char *room = __builtin_alloca(seed % 300 + 1);
    memset(room, 1, seed % 300 + 1);
    int got = walk(depth - 1, next(seed));
    return got + room[seed % 7 % (seed % 300 + 1)];
}

APART static int many(int a, int b, int c, int d, int e, int f, int depth, unsigned seed)
{
    int got = walk(depth - 1, next(seed + a + b));
    return got + c + d * e + f;
}

static int compare_depth;
static unsigned compare_seed;

static int compare(const void *a, const void *b)
{
    if (compare_depth > 0) {
        int depth = compare_depth;
        compare_depth = 0;
        walk(depth - 1, next(compare_seed));
    }
    return *(const int *)a - *(const int *)b;
}

APART static int sorted(int depth, unsigned seed)
{
    int numbers[5] = {3, (int)(seed & 7), 1, 4, 2};
    compare_depth = depth;
    compare_seed = seed;
    qsort(numbers, 5, sizeof numbers[0], compare);
    return numbers[2];
}

static void handle(int signal)
{
    (void)signal;
    int depth = handler_depth;
    if (depth > 0) {
        handler_depth = 0;
        walk(depth - 1, next(handler_seed));
    }
}

APART static int interrupted(int depth, unsigned seed)
{
    handler_depth = depth;
    handler_seed = seed;
    raise(SIGUSR1);
    return (int)total;
}

static int back(int depth, unsigned seed)
{
    return walk(depth, next(seed)) + 1;
}

APART static int walk(int depth, unsigned seed)
{
    if (depth <= 0) {
        leaf(seed);
        return (int)total;
    }
    switch (seed >> 16 & 7) {
    case 0:
        return straight(depth, seed) + 1;
    case 1:
        return inlined(depth, seed) + 2;
    case 2:
        return roomy(depth, seed) + 3;
    case 3:
        return many(1, 2, 3, 4, 5, 6, depth, seed) + 4;
    case 4:
        return sorted(depth, seed) + 5;
    case 5:
        return interrupted(depth, seed) + 6;
    case 6:
        return hop(back, depth, next(seed)) + 7;
    default:
        /* A tail call. */
        return hop_far(back, depth, next(seed));
    }
}

int main(int count, char **arguments)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &action, NULL);
    unsigned seed = 7;
    int hits = count > 1 ? atoi(arguments[1]) : 10;
    for (int hit = 0; hit < hits; hit++) {
        seed = next(seed);
        walk((int)(seed >> 20) % 12, seed);
    }
    printf("%u\n", total);
    return 0;
}
