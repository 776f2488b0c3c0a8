/* What `cargo xtask bench hit` traces: one function called again and again, and how long a call took.  */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile long sink;

__attribute__ ((noinline)) static void
work (long index, const char *text)
{
  sink += index + text[0];
}

int
main (int argc, char **argv)
{
  long calls = argc > 1 ? atol (argv[1]) : 1000;
  struct timespec start, end;
  for (long i = 0; i < 100; i++)
    work (i, "warm");
  clock_gettime (CLOCK_MONOTONIC, &start);
  for (long i = 0; i < calls; i++)
    work (i, "text");
  clock_gettime (CLOCK_MONOTONIC, &end);
  double nanoseconds = (end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec);
  printf ("nanoseconds per call: %.3f\n", nanoseconds / calls);
  return 0;
}
