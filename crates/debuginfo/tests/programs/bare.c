/* A program for any machine without libraries: functions of the compiler's and of the assembler's. */
typedef int (*operation)(int);

#if defined(__arm__) && defined(MIXED)
#define OTHER_SET __attribute__((target(SET)))
#if defined(__thumb__)
#define SET "arm"
#else
#define SET "thumb"
#endif
#else
#define OTHER_SET
#endif

int total;
static volatile int source = 3;

__attribute__((noinline)) OTHER_SET int other(int n) { return n * 3 + source; }
__attribute__((noinline)) static int next(int n) { return other(n) + source; }
__attribute__((noinline)) int choose(int n)
{
    switch (n) {
    case 0: return source;
    case 1: return other(7);
    case 2: return next(9);
    case 3: return source - 4;
    case 4: return source * 5;
    case 5: return source >> 1;
    default: return 0;
    }
}
operation volatile operations[] = { other, next, choose };

int main(void)
{
    for (int i = 0; i < 3; i++)
        total += operations[i](i);
    return total;
}

__asm__(
#if defined(__thumb__)
    "    .thumb\n"
    "    .syntax unified\n"
#endif
    "    .text\n"
    "    .globl _start\n"
    "    .type _start, %function\n"
    "_start:\n"
    "    nop\n"
    "within:\n"
    "    nop\n"
    "    nop\n"
    "    .size _start, . - _start\n"
    "    .globl sizeless\n"
    "    .type sizeless, %function\n"
    "sizeless:\n"
    "    nop\n"
    "    nop\n"
    "    .globl untyped\n"
    "untyped:\n"
    "    nop\n"
    "    nop\n");
