/* What `cargo xtask bench lean` traces: a function with a string and two integers, called again and again, and how long a call took.  */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile long sink;

__attribute__ ((noinline)) static void
work (const char *key, long index, int size)
{
  __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" : "+D" (key), "+S" (index), "+d" (size));
  sink += index + size + key[0];
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
  static char keys[1024][24];
  for (int i = 0; i < 1024; i++)
    snprintf (keys[i], sizeof keys[i], "key:%012d", i * 7919 % 100000);
  for (long i = 0; i < 100; i++)
    work (keys[i], i, 0);
  unsigned random = 1;
  double start = now ();
  for (long i = 0; i < calls; i++)
    {
      random = random * 1664525 + 1013904223;
      work (keys[random >> 22], i, random >> 16 & 1023);
    }
  printf ("nanoseconds per call: %.3f\n", (now () - start) / calls);
  return 0;
}
