/* Ticks until it is ended, or for a minute. */
#include <pthread.h>
#include <unistd.h>

volatile int rounds;

int
tick (int number)
{
  return 2 * number;
}

void *
turn (void *unused)
{
  for (;;)
    {
      rounds++;
      usleep (200);
    }
}

int
main (void)
{
  pthread_t other;
  alarm (60);
  pthread_create (&other, 0, turn, 0);
  for (int number = 0;; number++)
    {
      tick (number);
      usleep (200);
    }
}
