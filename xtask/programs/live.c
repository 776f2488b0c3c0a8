/* What `cargo xtask bench live` traces: a function that is called so many times with so much work between the calls. How long a call took goes to standard error:
   the frames are on standard output.  */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sink;

__attribute__ ((noinline)) static void
work (long index, int size)
{
  __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" : "+D" (index), "+S" (size));
  sink += index + size;
}

static double
now (void)
{
  struct timespec time;
  clock_gettime (CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

int
main (int argc, char **argv)
{
  long calls = argc > 1 ? atol (argv[1]) : 1000000;
  long between = argc > 2 ? atol (argv[2]) : 1000;
  unsigned long random = 1;
  double start = now ();
  for (long i = 0; i < calls; i++)
    {
      for (long n = 0; n < between; n++)
        random = random * 6364136223846793005ul + 1442695040888963407ul;
      work (i, random >> 40 & 1023);
    }
  fprintf (stderr, "nanoseconds per call: %.3f\n", (now () - start) / calls);
  return 0;
}
