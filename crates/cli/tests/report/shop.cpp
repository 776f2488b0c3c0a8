// Orders of a shop: strings, numbers, structures, lists, what cannot be read, and what is hostile to a page.
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

enum class Kind { card, cash, voucher };

struct Order
{
  long id;
  Kind kind;
  double price;
  std::string name;
  std::vector<int> items;
  const char *note;
};

static volatile unsigned long total;

// A table of hits has a column of this name too.
static volatile long line;

__attribute__ ((noinline)) bool
charge (const Order &order, unsigned long token, __int128 large)
{
  line = order.id * 3;
  for (long turn = 0; turn < (order.id % 50 == 7 ? 20000 : 100); turn++)
    total += turn ^ token ^ (unsigned long) large;
  if (order.id % 10 == 3)
    throw std::runtime_error ("declined");
  return order.id % 2;
}

__attribute__ ((noinline)) long
serve (Order &order)
{
  try
    {
      return charge (order, 0xfedcba9876543210 + order.id, ((__int128) 1 << 100) + order.id);
    }
  catch (const std::exception &)
    {
      return -1;
    }
}

int
main (int argc, char **argv)
{
  long count = argc > 1 ? std::atol (argv[1]) : 40;
  int children = argc > 2 ? std::atoi (argv[2]) : 0;
  static const char *names[] = { "tea", "", "</script><script>document.title = 'taken'</script>",
                                 "<img src=x onerror=\"document.title='taken'\">", "<!--<script>", "\xff\xfe bytes",
                                 "quote\" & 'apostrophe' \\ \x1b[31m", "ein längerer Name mit Ümlaut" };
  for (int child = 0; child < children; child++)
    if (fork () == 0)
      {
        children = 0;
        break;
      }
  for (long id = 0; id < count; id++)
    {
      const char *note = id % 4 == 1 ? (const char *) 8 : id % 4 == 2 ? nullptr : "plain";
      Order order = { id, (Kind) (id % 3), id % 9 == 5 ? std::nan ("") : id * 0.1, names[id % 8],
                      std::vector<int> (id % 5, (int) id), note };
      serve (order);
    }
  while (wait (nullptr) > 0)
    ;
}
