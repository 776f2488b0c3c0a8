/* What `cargo xtask bench circular` traces: threads that do nothing but hit, from the same moment on, and how long all of them took.

   circular THREADS HITS [leave]: each thread hits so many times.  With `leave`, a signal handler leaves hits by siglongjmp.  */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct shown
{
  long thread, number, check;
};

static long hits;
static int count;
static int leaves;
static pthread_barrier_t barrier;
static double begun[64], ended[64];
static __thread sigjmp_buf back;
static __thread volatile int inside;

__attribute__ ((noinline)) static void
hit (struct shown *shown)
{
  __asm__ volatile ("" : : "r" (shown) : "memory");
}

static void
leave (int signal)
{
  (void) signal;
  if (inside)
    siglongjmp (back, 1);
}

static double
now (void)
{
  struct timespec time;
  clock_gettime (CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void *
work (void *thread)
{
  struct shown shown = { (long) thread, 0, 0 };
  volatile long number = 0;
  timer_t timer;
  hit (&shown);
  if (leaves)
    {
      struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
      /* All threads together make so many signals, for the tracer passes each of them on.  */
      long often = 150000 * count;
      struct itimerspec every = { { 0, often }, { 0, often } };
      event._sigev_un._tid = syscall (SYS_gettid);
      if (timer_create (CLOCK_MONOTONIC, &event, &timer) || timer_settime (timer, 0, &every, 0))
        exit (3);
    }
  pthread_barrier_wait (&barrier);
  begun[shown.thread] = now ();
  while (number < hits)
    {
      if (sigsetjmp (back, 1) == 0)
        {
          inside = 1;
          while (number < hits)
            {
              shown.number = ++number;
              shown.check = shown.thread * 1000003 ^ number * 7919;
              hit (&shown);
            }
        }
      inside = 0;
    }
  if (leaves)
    timer_delete (timer);
  ended[shown.thread] = now ();
  return 0;
}

int
main (int words, char **arguments)
{
  pthread_t threads[64];
  count = words > 2 ? atoi (arguments[1]) : 0;
  if (count < 1 || count > 64)
    return 2;
  hits = atol (arguments[2]);
  leaves = words > 3 && strcmp (arguments[3], "leave") == 0;
  signal (SIGUSR1, leave);
  pthread_barrier_init (&barrier, 0, count);
  for (long i = 0; i < count; i++)
    if (pthread_create (threads + i, 0, work, (void *) i))
      return 2;
  double first = 0, last = 0;
  for (int i = 0; i < count; i++)
    {
      pthread_join (threads[i], 0);
      first = i == 0 || begun[i] < first ? begun[i] : first;
      last = ended[i] > last ? ended[i] : last;
    }
  printf ("%.6f\n", last - first);
  return 0;
}
