/* Functions that call themselves as often as is asked for. */
#include <stdlib.h>

static volatile unsigned long result;

/* Its entry is too short for a jump: the loop goes to its second instruction. In a program at a fixed address, a displacement that ends
 * there leads to no memory. */
__attribute__((noinline, naked)) static void tight(unsigned long n)
{
    __asm__("push %rbx\n"
            "1: mov %rdi, %rbx\n"
            "nop\n"
            "cmp %rdi, %rbx\n"
            "jne 1b\n"
            "dec %rdi\n"
            "jz 2f\n"
            "call tight\n"
            "2: pop %rbx\n"
            "ret");
}

__attribute__((noinline)) static void deep(unsigned long n)
{
    if (n > 1)
        deep(n - 1);
    result += n;
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
    deep(n);
    tight(n);
    return 0;
}
