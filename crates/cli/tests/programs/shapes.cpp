// C++ as programs use it: classes, templates, overloads, references, namespaces, inlining.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace geometry
{
struct Point
{
  double x, y;
};

class Shape
{
public:
  explicit Shape (int id) : id_ (id) { count++; }
  virtual ~Shape () = default;
  virtual double area () const = 0;
  int id () const { return id_; }
  static int count;

protected:
  int id_;
};

int Shape::count;

enum class Kind : unsigned char
{
  round,
  square
};

class Circle : public Shape
{
public:
  Circle (int id, Point centre, double radius) : Shape (id), centre_ (centre), radius_ (radius) {}
  double area () const override;

private:
  Point centre_;
  double radius_;
  Kind kind_ = Kind::round;
};

class Square : public Shape
{
public:
  Square (int id, double side) : Shape (id), side_ (side) {}
  double area () const override { return side_ * side_; }

private:
  double side_;
  Kind kind_ = Kind::square;
};

double
Circle::area () const
{
  double squared = radius_ * radius_;
  return squared * 3.0;
}
}

template <typename T>
__attribute__ ((noinline)) T
largest (T a, T b)
{
  T result = a > b ? a : b;
  return result;
}

__attribute__ ((noinline)) int
scale (int value, int by)
{
  return value * by;
}

__attribute__ ((noinline)) double
scale (double value, double by)
{
  return value * by;
}

__attribute__ ((noinline)) void
adjust (geometry::Point &point, const int &by, geometry::Point &&from, bool really)
{
  if (really)
    point.x += by + from.x;
}

__attribute__ ((noinline)) double
total (const std::vector<std::unique_ptr<geometry::Shape>> &shapes, const std::string &name)
{
  double sum = 0;
  for (const auto &shape : shapes)
    {
      const geometry::Shape &current = *shape;
      sum += current.area ();
    }
  std::printf ("%s\n", name.c_str ());
  return sum;
}

int
main ()
{
  std::vector<std::unique_ptr<geometry::Shape>> shapes;
  for (int i = 0; i < 4; i++)
    {
      if (i % 2)
        shapes.push_back (std::make_unique<geometry::Circle> (i, geometry::Point{ i * 1.0, -i * 1.0 }, i + 0.5));
      else
        shapes.push_back (std::make_unique<geometry::Square> (i, i + 1.5));
    }
  geometry::Point point{ 1, 2 };
  for (int i = 0; i < 3; i++)
    adjust (point, i, geometry::Point{ i * 2.0, 0 }, i != 1);
  double sum = total (shapes, "all of them");
  sum += largest (1, 2) + largest (2.5, 1.5) + largest ('a', 'b');
  sum += scale (3, 4) + scale (1.5, 2.0);
  std::printf ("%g %d %g\n", sum, geometry::Shape::count, point.x);
}
