/* Calls a function with floating-point arguments. */
#include <stdio.h>

static volatile double sum;

__attribute__ ((noinline)) void
work (long index, double weight, double minus, float small)
{
  sum += index + weight + minus + small;
}

int
main (void)
{
  for (long index = 0; index < 40; index++)
    work (index, index * 0.5, -(double) index, (float) index / 16);
  printf ("%f\n", sum);
  return 0;
}
