#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair { long first, second; };
struct small { int a; short b; char c; };
struct big { double values[8]; int count; };

static int hits;
volatile int sink;

__attribute__ ((noinline)) static long
consume (long x)
{
  sink = (int) x;
  return x;
}

static inline __attribute__ ((always_inline)) int
inlined (int value, const char *label)
{
  int doubled = value * 2;
  hits += doubled;
  sink = label[0]; /* inlined */
  return doubled;
}

__attribute__ ((noinline)) static long
spread (struct pair p, struct small s, int count, const char *name, double weight)
{
  long sum = p.first + p.second;
  int unused = count * 3;
  struct pair local = {sum, s.a};
  unsigned char flag = count & 1;
  for (int i = 0; i < count; i++)
    {
      sum += consume (i + s.b); /* loop */
      local.first ^= sum;
    }
  sink = flag + (int) weight; /* after */
  return sum + local.first + (long) strlen (name) + inlined (count, name);
}

__attribute__ ((noinline)) static double
floating (struct big *big, float scale, int which)
{
  double total = 0;
  for (int i = 0; i < big->count; i++)
    {
      total += big->values[i] * scale;
      consume (i); /* floating */
    }
  return total * which;
}

__attribute__ ((noinline)) static int
variable_length (int count)
{
  int array[count];
  for (int i = 0; i < count; i++)
    array[i] = i * i;
  consume (array[count - 1]); /* vla */
  return array[0] + array[count / 2];
}

int
main (int argc, char **argv)
{
  struct pair p = {argc, 20};
  struct small s = {1, 2, 'c'};
  struct big big = {{1, 2, 3, 4, 5, 6, 7, 8}, 5};
  long result = spread (p, s, 3 + argc, argv[0], 1.5);
  result += (long) floating (&big, 2.0f, argc);
  result += variable_length (argc + 5);
  printf ("%ld %d\n", result, hits);
  return 0;
}
