/* What the tables of packets are played against. */
#include <unistd.h>

volatile long counter;
const char constant[8] = "constant";

__attribute__ ((noinline)) void
tick (void)
{
  counter++;
}

__attribute__ ((noinline)) void
done (void)
{
  __asm__ volatile ("nop");
}

int
main (void)
{
  alarm (60);
  for (;;)
    {
      for (int i = 0; i < 3; i++)
        tick ();
      done ();
    }
}
