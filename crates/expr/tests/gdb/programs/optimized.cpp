#include <cstdio>
#include <memory>
#include <string>
#include <vector>

struct vec3 { float x, y, z; };

class animal
{
public:
  explicit animal (int legs) : legs_ (legs) {}
  virtual ~animal () = default;
  virtual int speak (int volume) = 0;
protected:
  int legs_;
};

class dog final : public animal
{
public:
  dog () : animal (4) {}
  int speak (int volume) override;
private:
  long barks_ = 0;
};

volatile int sink;

__attribute__ ((noinline)) int
dog::speak (int volume)
{
  const int &reference = volume;
  barks_ += volume;
  int loud = volume * legs_;
  sink = loud + reference; /* method */
  return loud;
}

template <typename T>
__attribute__ ((noinline)) T
sum (const std::vector<T> &values, vec3 offset)
{
  T total {};
  for (const T &value : values)
    {
      total += value;
      sink = (int) total; /* range */
    }
  return total + (T) offset.x;
}

int
main (int argc, char **)
{
  std::unique_ptr<animal> pet = std::make_unique<dog> ();
  std::vector<double> values = {1.5, 2.5, (double) argc};
  int result = pet->speak (argc + 2);
  result += (int) sum (values, vec3 {1, 2, 3});
  std::printf ("%d\n", result);
}
