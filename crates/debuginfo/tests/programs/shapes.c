// What C programs are made of: every kind of type, scopes, statics, inlined and variadic functions.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum color { RED, GREEN = 5, BLUE = -3 };
typedef unsigned long long ticks;
struct point { int x, y; };
union number { int whole; float real; unsigned char bytes[4]; };
struct flags { unsigned a : 3; int b : 5; unsigned long long c : 40; _Bool d : 1; };
struct job {
    const char *name;
    struct point where;
    enum color color;
    union number number;
    struct flags flags;
    int matrix[2][3];
    struct job *next;
    int (*handler)(struct job *, int);
    union { int either; long or; };
    char tail[];
};

int counter = 7;
static struct point origin = { 1, 2 };
static const char *const words[] = { "one", "two", "three" };
_Thread_local int per_thread = 11;
static _Thread_local long per_thread_static = 12;
volatile unsigned char flag_byte;
double ratio = 0.5;

static inline __attribute__((always_inline)) int twice(int value)
{
    int result = value * 2;
    counter += result;
    return result;
}

__attribute__((noinline)) static int helper(struct job *job, int by)
{
    static int calls;
    calls++;
    for (int i = 0; i < by; i++) {
        int square = i * i;
        job->where.x += square;
        if (square > 3) {
            int by = square + 1;
            job->where.y -= by;
        }
    }
    return twice(job->where.x) + calls;
}

__attribute__((noinline)) int sum(int count, ...)
{
    va_list list;
    va_start(list, count);
    int total = 0;
    while (count-- > 0)
        total += va_arg(list, int);
    va_end(list);
    return total;
}

__attribute__((noinline)) double mix(double a, float b, long c, char d, struct point p)
{
    double product = a * b;
    if (c)
        product += p.x;
    return product + d;
}

__attribute__((noinline)) int variable_length(int n)
{
    int values[n];
    for (int i = 0; i < n; i++)
        values[i] = i * counter;
    int total = 0;
    for (int i = 0; i < n; i++)
        total += values[i];
    return total;
}

int one_line(int a) { return a + 1; }

void empty(void)
{
}

__attribute__((noinline)) int recursive(int depth)
{
    char buffer[64];
    snprintf(buffer, sizeof buffer, "%d", depth);
    if (depth <= 0)
        return (int)strlen(buffer);
    return recursive(depth - 1) + buffer[0];
}

int aligned(int value)
{
    __attribute__((aligned(64))) int block[16] = { value };
    for (int i = 1; i < 16; i++)
        block[i] = block[i - 1] + i;
    return block[15];
}

int shadow(int value)
{
    int result = value;
    {
        int result = value + 1;
        counter += result;
        {
            long result = counter;
            counter -= (int)result;
        }
    }
    switch (value) {
    case 1: {
        int only_here = 3;
        result += only_here;
        break;
    }
    default:
        result--;
    }
    return result;
}

int main(int argc, char **argv)
{
    struct job *job = calloc(1, sizeof *job + 8);
    job->name = argc > 1 ? argv[1] : words[argc];
    job->color = BLUE;
    job->handler = helper;
    job->where = origin;
    int total = job->handler(job, argc + 3);
    total += sum(3, 1, 2, 3) + variable_length(4) + recursive(3);
    total += one_line(total) + aligned(total) + shadow(argc);
    total += twice(argc) + per_thread + (int)per_thread_static;
    empty();
    printf("%d %f\n", total, mix(ratio, 2.0f, total, 'c', job->where));
    free(job);
    return 0;
}
