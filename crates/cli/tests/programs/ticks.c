#include <unistd.h>

static volatile long ticks;

__attribute__ ((noinline)) void
tick (void)
{
  ticks++;
}

int
main (void)
{
  /* A minute at most, should nobody end it. */
  for (int i = 0; i < 60000; i++)
    {
      tick ();
      usleep (1000);
    }
  return 0;
}
