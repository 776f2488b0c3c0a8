/* Threads that call one function with a number that counts the calls of all of them, and say in a file how far each has come.

   flight FILE THREADS

   The file is mapped.  Its first line of 64 bytes has three words: one that lets the threads begin, one that tells what to
   do (1: crash by SIGSEGV, 2: abort, 3: end), and the number of the next call.  Then each thread has a line: the number of the call that it is in,
   from 1; 0 if it is in none; all ones while it takes a number.  */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct line
{
  _Atomic unsigned long first, second, third, unused[5];
};
static struct line *lines;

__attribute__ ((noinline)) unsigned long
hit (unsigned long seq, unsigned long check)
{
  __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0, 0" ::: "memory");
  return check ^ seq;
}

__attribute__ ((noinline)) unsigned long
failed (unsigned long seq)
{
  __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0, 0" ::: "memory");
  return seq;
}

static void *
run (void *argument)
{
  struct line *own = &lines[(unsigned long) argument + 1];
  while (!lines[0].first)
    usleep (1000);
  for (unsigned long count = 0;; count++)
    {
      switch (atomic_load_explicit (&lines[0].second, memory_order_relaxed))
	{
	case 1:
	  *(volatile int *) 8 = 0;
	case 2:
	  abort ();
	case 3:
	  return 0;
	case 4:
	  if (count % 64 == 0 && atomic_exchange (&lines[0].second, 0) == 4)
	    failed (count);
	}
      atomic_store (&own->first, -1);
      unsigned long seq = atomic_fetch_add (&lines[0].third, 1);
      atomic_store (&own->first, seq + 1);
      hit (seq, seq * 0x9e3779b97f4a7c15);
      atomic_store (&own->first, 0);
      if (count % 64 == 0)
	sched_yield ();
    }
}

int
main (int number, char **words)
{
  int file = open (words[1], O_RDWR);
  unsigned long threads = strtoul (words[2], 0, 0);
  lines = mmap (0, sizeof *lines * (threads + 1), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (number != 3 || lines == MAP_FAILED)
    return 2;
  pthread_t all[64];
  for (unsigned long n = 0; n < threads; n++)
    pthread_create (&all[n], 0, run, (void *) n);
  puts ("ready");
  fflush (stdout);
  for (unsigned long n = 0; n < threads; n++)
    pthread_join (all[n], 0);
  return 0;
}
