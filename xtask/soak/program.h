/* What the programs of the soak have in common.

   Each shares a file with the soak: word 0 is the wish to end, word 1 what is wrong, word 2 whether it works, word 3 how many
   calls were interrupted, and from word 16 on there are LANES counters. A lane belongs to whatever calls `site` one call after the other; each call has the next number
   of its lane, so that a frame that is missing shows as a gap. */

#ifndef PROGRAM_H
#define PROGRAM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LANES = 256, END = 0, WRONG = 1, WORKS = 2, INTERRUPTED = 3, COUNTERS = 16 };

static volatile long *shared;
static long calls;
static const char *file_name;
static uint64_t noise = 1;

#ifdef __cplusplus
extern "C"
#endif
__attribute__ ((noinline)) long
site (long lane, long number)
{
  __asm__ volatile ("" ::: "memory");
  return lane * 1000003 + number * 7 + 1;
}

static void
wrong (int line)
{
  static const char words[] = "wrong\n";
  shared[WRONG] = line;
  syscall (SYS_write, 2, words, sizeof words - 1);
  syscall (SYS_exit_group, 3);
}

#define CHECK(what) \
  do \
    if (!(what)) \
      wrong (__LINE__); \
  while (0)

static void
call (long lane)
{
  long number = shared[COUNTERS + lane];
  shared[COUNTERS + lane] = number + 1;
  CHECK (site (lane, number) == lane * 1000003 + number * 7 + 1);
}

static long
all_calls (void)
{
  long sum = 0;
  for (int lane = 0; lane < LANES; lane++)
    sum += shared[COUNTERS + lane];
  return sum;
}

/* Whether the work goes on: until there have been so many calls, or until the wish. */
static int
goes_on (void)
{
  return calls ? all_calls () < calls : !shared[END];
}

/* Some work that needs no system call, between two calls. */
static void
rest (void)
{
  for (volatile int pause = 0; pause < 3000; pause++)
    ;
}

static void
begin (int count, char **arguments)
{
  if (count != 4)
    exit (4);
  file_name = arguments[2];
  calls = atol (arguments[3]);
  int file = open (file_name, O_RDWR);
  void *memory = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    exit (4);
  shared = (volatile long *) memory;
  close (file);
  noise = (uint64_t) getpid () | 1;
  shared[WORKS] = 1;
}

static int
end (void)
{
  shared[WORKS] = 2;
  return 0;
}

#endif
