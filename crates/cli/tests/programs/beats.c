/* Two threads that count, until somebody ends them, or for a minute. The first one counts in a function. */
#include <pthread.h>
#include <unistd.h>

volatile long ticks;
volatile long turns;

__attribute__ ((noinline)) void
tick (void)
{
  ticks++;
}

static void *
turn (void *unused)
{
  for (;;)
    {
      turns++;
      usleep (500);
    }
  return unused;
}

int
main (void)
{
  pthread_t other;
  alarm (60);
  pthread_create (&other, 0, turn, 0);
  for (;;)
    {
      tick ();
      usleep (500);
    }
}
