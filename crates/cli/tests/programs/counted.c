/* Threads that call one function with their number and a count, and say in a file how far each has come.

   counted FILE THREADS PAUSE

   The file is mapped.  Its first line of 64 bytes has two words: one that ends the program and one that lets its threads
   begin.  Then each thread has a line: how many calls it has begun, how many have returned, how many things were wrong, and
   the first two of a function that is called every thousandth time.  After 64 calls each thread pauses for PAUSE
   microseconds; 0: it lets others run.  SIGUSR2 ends the thread that gets it at once.  Ends with
   0 if nothing was wrong.  */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct line
{
  _Atomic unsigned long first, second, wrong, third, fourth, unused[3];
};
static struct line *lines;
static unsigned pause_between;

__attribute__ ((noinline)) unsigned long
hit (unsigned long thread, unsigned long seq, unsigned long check)
{
  __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0, 0" ::: "memory");
  return check ^ thread ^ seq;
}

__attribute__ ((noinline)) unsigned long
seldom (unsigned long thread, unsigned long seq, unsigned long check)
{
  __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0, 0" ::: "memory");
  return check ^ thread ^ seq;
}

static void
leave (int signal)
{
  syscall (SYS_exit, 0);
}

static void *
run (void *argument)
{
  unsigned long thread = (unsigned long) argument;
  struct line *own = &lines[thread + 1];
  sigset_t before, after;
  pthread_sigmask (SIG_BLOCK, 0, &before);
  while (!lines[0].second && !lines[0].first)
    usleep (1000);
  for (unsigned long seq = 0; !atomic_load_explicit (&lines[0].first, memory_order_relaxed); seq++)
    {
      atomic_store_explicit (&own->first, seq + 1, memory_order_release);
      unsigned long check = (seq * 0x9e3779b97f4a7c15) ^ thread;
      if (hit (thread, seq, check) != (check ^ thread ^ seq))
	own->wrong++;
      atomic_store_explicit (&own->second, seq + 1, memory_order_release);
      /* Not so fast that a reader which is not optimised falls behind for good.  */
      if (seq % 64 == 0 && pause_between)
	usleep (pause_between);
      else if (seq % 64 == 0)
	sched_yield ();
      if (seq % 1000 == 0)
	{
	  atomic_store_explicit (&own->third, seq / 1000 + 1, memory_order_release);
	  if (seldom (thread, seq / 1000, ~thread) != (~thread ^ thread ^ (seq / 1000)))
	    own->wrong++;
	  atomic_store_explicit (&own->fourth, seq / 1000 + 1, memory_order_release);
	}
    }
  pthread_sigmask (SIG_BLOCK, 0, &after);
  own->wrong += memcmp (&before, &after, 8) != 0;
  return 0;
}

int
main (int count, char **arguments)
{
  long threads = count > 2 ? atol (arguments[2]) : 1;
  pause_between = count > 3 ? atoi (arguments[3]) : 0;
  int file = open (arguments[1], O_RDWR);
  lines = mmap (0, 64 * (threads + 1), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (lines == MAP_FAILED)
    return 2;
  signal (SIGUSR2, leave);
  /* Not for ever: should nobody end it.  */
  alarm (300);
  pthread_attr_t small;
  pthread_attr_init (&small);
  pthread_attr_setstacksize (&small, 64 << 10);
  pthread_t *all = calloc (threads, sizeof *all);
  for (long i = 1; i < threads; i++)
    if (pthread_create (&all[i], &small, run, (void *) i))
      return 3;
  puts ("ready");
  fflush (stdout);
  run (0);
  unsigned long wrong = lines[1].wrong;
  for (long i = 1; i < threads; i++)
    {
      pthread_join (all[i], 0);
      wrong += lines[i + 1].wrong;
    }
  return wrong > 0;
}
