/* Functions of which the C library has several implementations, called directly and through pointers; how often, the
   program prints itself. With an argument it says that it is ready, and waits for a line first. */
#include <stdio.h>
#include <string.h>

char probe_text[] = "a text of the program's own";
char probe_buffer[4096];
static unsigned long lengths, copies, fills, searches;

__attribute__((noinline)) static size_t length(const char *text) { lengths++; return strlen(text); }
__attribute__((noinline)) static void copy(int size) { copies++; memcpy(probe_buffer, probe_text, size); }
__attribute__((noinline)) static void fill(int size) { fills++; memset(probe_buffer, 'x', size); }
__attribute__((noinline)) static char *search(int wanted) { searches++; return strchr(probe_text, wanted); }

int main(int argc, char **argv)
{
  size_t (*volatile by_pointer_length)(const char *) = strlen;
  void *(*volatile by_pointer_copy)(void *, const void *, size_t) = memcpy;
  void *(*volatile by_pointer_fill)(void *, int, size_t) = memset;
  char *(*volatile by_pointer_search)(const char *, int) = strchr;
  size_t sum = 0;
  if (argc > 1)
    {
      char line[16];
      puts("ready");
      fflush(stdout);
      if (!fgets(line, sizeof line, stdin))
        return 1;
    }
  for (int i = 0; i < 7; i++)
    {
      sum += length(probe_text);
      copy(20 + i % 3);
      fill(100 + i);
      sum += search('p') - probe_text;
      lengths++, sum += by_pointer_length(probe_text);
      copies++, by_pointer_copy(probe_buffer, probe_text, 10);
      if (i & 1)
        fills++, by_pointer_fill(probe_buffer, 'y', 300);
      searches += 2, sum += by_pointer_search(probe_text, 'o') - by_pointer_search(probe_text, 't');
    }
  fprintf(stderr, "%zu\n", sum);
  printf("strlen %lu\nmemcpy %lu\nmemset %lu\nstrchr %lu\n", lengths, copies, fills, searches);
  return 0;
}
