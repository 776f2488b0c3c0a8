#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t first, second;

static void
handle (int signal)
{
  if (signal == SIGUSR1)
    first++;
  else
    second++;
}

int
main (void)
{
  signal (SIGUSR1, handle);
  signal (SIGUSR2, handle);
  raise (SIGUSR1);
  raise (SIGUSR1);
  raise (SIGUSR2);
  fprintf (stderr, "usr1 %d usr2 %d\n", first, second);
  *(volatile int *) 16 = 1;
  return 0;
}
