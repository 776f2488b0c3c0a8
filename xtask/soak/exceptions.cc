// A program for the soak that throws and catches: `exceptions KIND FILE CALLS`.

#include "program.h"
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static thread_local long alive;

struct Counted
{
  Counted () { alive++; }
  ~Counted () { alive--; }
};

__attribute__ ((noinline)) static void
thrown (long lane, int depth)
{
  Counted counted;
  call (lane);
  if (depth == 0)
    throw std::runtime_error (std::to_string (lane));
  thrown (lane, depth - 1);
}

static void
work (long lane)
{
  while (goes_on ())
    {
      bool caught = false;
      try
        {
          thrown (lane, 4);
        }
      catch (const std::runtime_error &error)
        {
          caught = error.what () == std::to_string (lane);
        }
      CHECK (caught && alive == 0);
      rest ();
    }
}

int
main (int count, char **arguments)
{
  begin (count, arguments);
  std::string kind = arguments[1];
  if (kind == "threads")
    {
      std::vector<std::thread> threads;
      for (long lane = 0; lane < 4; lane++)
        threads.emplace_back (work, lane);
      for (auto &thread : threads)
        thread.join ();
    }
  else
    work (0);
  return end ();
}
