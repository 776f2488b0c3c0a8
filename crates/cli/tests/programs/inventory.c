/* C as programs use it: what a tracepoint may be asked to collect, in one place.  */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum colour { RED, GREEN = 5, BLUE };
enum access { READ = 1, WRITE = 2, EXECUTE = 4 };

union number
{
  long whole;
  double real;
  unsigned char bytes[8];
};

struct point
{
  short x, y;
};

struct item
{
  int id;
  const char *name;
  char tag[16];
  double price;
  float weight;
  enum colour colour;
  enum access access;
  unsigned flag : 1;
  signed level : 5;
  unsigned mode : 10;
  union number number;
  struct point corners[4];
  struct item *next;
  int (*compare) (const struct item *, const struct item *);
  struct
  {
    long inner;
    char letter;
  };
};

static int counter;
long table[3][4];
char message[64];
const char *const words[] = { "zero", "one", "two", "three" };
long double wide = 1.25L;
_Bool ready;

static int
by_id (const struct item *a, const struct item *b)
{
  return a->id - b->id;
}

static inline __attribute__ ((always_inline)) int
twice (int value)
{
  int result = value * 2;
  counter += result;
  return result;
}

__attribute__ ((noinline)) int
weigh (struct item *item, int *numbers, unsigned count, char *text)
{
  static int calls;
  int total = 0;
  unsigned i;
  calls++;
  for (i = 0; i < count; i++)
    {
      int square = numbers[i] * numbers[i];
      total += square;
    }
  total += twice (total);
  item->level = (int) (count % 16) - 8;
  item->number.real = total / 2.0;
  table[count % 3][i % 4] = total;
  snprintf (message, sizeof message, "%s: %d", text, total);
  ready = total > 20;
  return total;
}

__attribute__ ((noinline)) double
mix (float a, double b, long double c, char d, unsigned char e, short f, unsigned long g)
{
  double sum = a + b + (double) c + d + e + f + (double) g;
  return sum * 2;
}

__attribute__ ((noinline)) struct item *
find (struct item *list, int id)
{
  while (list && list->id != id)
    list = list->next;
  return list;
}

int
main (void)
{
  struct item items[3];
  memset (items, 0, sizeof items);
  for (int i = 0; i < 3; i++)
    {
      struct item *item = &items[i];
      item->id = i + 10;
      item->name = words[i + 1];
      memset (item->tag, 'a' + i, sizeof item->tag);
      if (i < 2)
	strcpy (item->tag, i ? "second" : "");
      item->price = 1.5 * (i + 1);
      item->weight = 0.1f * i;
      item->colour = i == 0 ? RED : i == 1 ? GREEN : BLUE;
      item->access = READ | (i ? WRITE : 0);
      item->flag = i & 1;
      item->mode = 1000 + i;
      item->number.whole = -1 - i;
      for (int k = 0; k < 4; k++)
	item->corners[k] = (struct point) { k, -k };
      item->next = i < 2 ? &items[i + 1] : NULL;
      item->compare = by_id;
      item->inner = 1L << (i * 20);
      item->letter = 'x' + i;
    }
  int numbers[] = { 3, -1, 4, 1, -5, 9, 2, 6 };
  double sum = 0;
  for (unsigned i = 0; i < 9; i++)
    {
      char text[16];
      snprintf (text, sizeof text, "round %u", i);
      sum += weigh (&items[i % 3], numbers, i, text);
      sum += mix (i, i * 0.5, i * 0.25L, (char) ('A' + i), (unsigned char) (200 + i), (short) -i, 1ul << i);
      struct item *found = find (items, 10 + (int) (i % 4));
      sum += found ? found->id : -1;
    }
  printf ("%g %d %s\n", sum, counter, message);
  return 0;
}
