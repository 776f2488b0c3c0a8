/* A function that is inlined everywhere, and two callers of it that are not.  */
#include <stdio.h>

static inline __attribute__ ((always_inline)) int
tiny (int x)
{
  return x * 3 + 1;
}

__attribute__ ((noinline)) int
outer (int x)
{
  int sum = 0;
  for (int n = 0; n < x; n++)
    sum ^= tiny (n);
  return sum;
}

__attribute__ ((noinline)) int
other (int x)
{
  return tiny (x);
}

int
main (void)
{
  printf ("%d\n", outer (3) + other (4));
  return 0;
}
