/* What `cargo xtask bench hit` traces: one function called again and again, by one thread or several, and how long a call
   took, `hit CALLS 1 CALLERS` in a thread with so many callers.  `hit floor BYTES` tells what no tracer can do without: the
   copy of a frame of so many bytes, and its time.  */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

static _Thread_local volatile long sink;
static long calls;
static _Thread_local long sum;
static pthread_barrier_t barrier;

__attribute__ ((noinline)) static long
work (long index, const char *text)
{
  /* Five bytes long, as gdbserver's fast tracepoints want it; the arguments in their registers, so that no copy of one comes
     before.  */
  __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" : "+D" (index), "+S" (text));
  sink += index + text[0];
  return index;
}

static double
now (void)
{
  struct timespec time;
  clock_gettime (CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *
run (void *unused)
{
  for (long i = 0; i < 100; i++)
    sum += work (i, "warm");
  pthread_barrier_wait (&barrier);
  for (long i = 0; i < calls; i++)
    sum += work (i, "text");
  pthread_barrier_wait (&barrier);
  return unused;
}

/* As `run`, with so many callers.  */
__attribute__ ((noinline)) static void *
run_below (int callers)
{
  if (callers <= 0)
    return run (0);
  void *result = run_below (callers - 1);
  __asm__ volatile ("" : "+r" (result));
  return result;
}

static void *
run_deep (void *callers)
{
  return run_below (*(int *) callers);
}

static double
memory_copied (long size)
{
  static char from[400], to[1 << 20];
  /* As records are, behind a header and at words.  */
  long stride = (size + 32 + 7) & ~7L;
  double start = now ();
  for (long i = 0; i < calls; i++)
    {
      char *frame = to + i * stride % (sizeof to - sizeof from);
      memcpy (frame, from, size);
      *(volatile unsigned long long *) frame = __rdtsc ();
    }
  return now () - start;
}

int
main (int argc, char **argv)
{
  int floor = argc > 1 && strcmp (argv[1], "floor") == 0;
  calls = !floor && argc > 1 ? atol (argv[1]) : 1000000;
  if (floor)
    {
      long size = argc > 2 ? atol (argv[2]) : 0;
      if (size < 8 || size > 400)
        return 2;
      printf ("nanoseconds per call: %.3f\n", memory_copied (size) / calls);
      return 0;
    }
  int threads = argc > 2 ? atoi (argv[2]) : 1;
  int callers = argc > 3 ? atoi (argv[3]) : 0;
  pthread_t ids[64];
  pthread_barrier_init (&barrier, 0, callers > 0 ? 2 : threads);
  if (callers > 0)
    {
      /* The thread's own calls are deep; this one takes the time.  */
      pthread_create (&ids[1], 0, run_deep, &callers);
      pthread_barrier_wait (&barrier);
      double start = now ();
      pthread_barrier_wait (&barrier);
      printf ("nanoseconds per call: %.3f\n", (now () - start) / calls);
      return 0;
    }
  for (int i = 1; i < threads && i < 64; i++)
    pthread_create (&ids[i], 0, run, 0);
  for (long i = 0; i < 100; i++)
    sum += work (i, "warm");
  pthread_barrier_wait (&barrier);
  double start = now ();
  for (long i = 0; i < calls; i++)
    sum += work (i, "text");
  pthread_barrier_wait (&barrier);
  printf ("nanoseconds per call: %.3f\n", (now () - start) / calls / threads);
  return 0;
}
