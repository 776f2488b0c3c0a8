/* Makes a child by fork and one by vfork, which becomes another program. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int places;

int
child_work (int number)
{
  places += number;
  return places;
}

int
parent_work (int number)
{
  places += number;
  return places;
}

int
main (int count, char **arguments)
{
  int status;
  pid_t child = fork ();
  if (child == 0)
    exit (child_work (7));
  waitpid (child, &status, 0);
  parent_work (WEXITSTATUS (status));
  child = vfork ();
  if (child == 0)
    {
      execl ("/bin/true", "true", (char *) 0);
      _exit (1);
    }
  waitpid (child, &status, 0);
  parent_work (WEXITSTATUS (status));
  return 0;
}
