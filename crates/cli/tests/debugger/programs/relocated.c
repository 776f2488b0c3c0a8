/* Adds, by an instruction of seven bytes that is relative to itself. */
#include <stdio.h>
static long total;
void done (void) {}
__attribute__ ((noinline)) void
work (long number)
{
  __asm__ volatile (".globl here\nhere: addq %1, %0" : "+m" (total) : "r" (number));
}
int
main (void)
{
  for (long i = 0; i < 20; i++)
    work (i);
  done ();
  return total != 190;
}
