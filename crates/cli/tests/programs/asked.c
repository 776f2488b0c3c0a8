/* Writes what it was started with into the file that its first argument names. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int
main (int count, char **arguments)
{
  char folder[4096];
  const char *colour = getenv ("COLOUR"), *home = getenv ("HOME");
  FILE *file = fopen (arguments[1], "w");
  fprintf (file, "in %s\n", getcwd (folder, sizeof folder));
  fprintf (file, "COLOUR %s\nHOME %s\n", colour ? colour : "(none)", home ? home : "(none)");
  for (int number = 2; number < count; number++)
    fprintf (file, "<%s>\n", arguments[number]);
  fclose (file);
  return 3;
}
