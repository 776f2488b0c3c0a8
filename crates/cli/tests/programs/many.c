/* Calls a function as often as it is told to, and says what a call took. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct message {
  long length;
  double weight;
};

static volatile long sum;

__attribute__ ((noinline)) void
work (long index, struct message *message, double weight)
{
  sum += index + message->length + (long) weight;
}

int
main (int count, char **arguments)
{
  long calls = count > 1 ? atol (arguments[1]) : 10;
  struct message message = { 5, 0.5 };
  struct timespec before, after;
  clock_gettime (CLOCK_MONOTONIC, &before);
  for (long index = 0; index < calls; index++)
    {
      message.weight = index * 0.5;
      work (index, &message, message.weight);
    }
  clock_gettime (CLOCK_MONOTONIC, &after);
  double passed = (after.tv_sec - before.tv_sec) * 1e9 + after.tv_nsec - before.tv_nsec;
  printf ("nanoseconds per call: %.2f\n", passed / calls);
  fflush (stdout);
  return 0;
}
