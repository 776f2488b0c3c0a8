/* Makes a child by each of two system calls, whose instructions have names.  */
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAKE_CHILD(call, before, after)                                       \
  ({                                                                          \
    long result;                                                              \
    asm volatile (".globl " before "\n.globl " after "\n" before ": syscall\n" \
                  after ": test %%rax, %%rax\n"                               \
                  "jnz 1f\n"                                                  \
                  "mov %2, %%eax\n"                                           \
                  "xor %%edi, %%edi\n"                                        \
                  "syscall\n"                                                 \
                  "1:\n"                                                      \
                  : "=a" (result)                                             \
                  : "0" ((long) (call)), "i" (SYS_exit_group)                 \
                  : "rcx", "r11", "rdi", "memory");                           \
    result;                                                                   \
  })

int
main (void)
{
  waitpid (MAKE_CHILD (SYS_fork, "forks", "forked"), 0, 0);
  waitpid (MAKE_CHILD (SYS_vfork, "vforks", "vforked"), 0, 0);
  return 0;
}
