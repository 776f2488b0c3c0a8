#include <pthread.h>
#include <stdio.h>

static long counts[4];

static void
tick (long number)
{
  counts[number]++;
}

static void *
work (void *argument)
{
  long number = (long) argument;
  for (int i = 0; i < 50; i++)
    tick (number);
  return argument;
}

int
main (void)
{
  pthread_t threads[4];
  for (long i = 0; i < 4; i++)
    pthread_create (&threads[i], 0, work, (void *) i);
  for (int i = 0; i < 4; i++)
    pthread_join (threads[i], 0);
  printf ("sum %ld\n", counts[0] + counts[1] + counts[2] + counts[3]);
  return 3;
}
