// Exceptions through functions with and without destructors, virtual functions, containers, lambdas, and what is rethrown.
#include "flow.h"
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

static volatile long sink;

struct Guard {
    int number;
    NOINLINE explicit Guard(int number) : number(number) { sink += number; }
    NOINLINE ~Guard() { sink -= number; }
};

NOINLINE static int fail(int n)
{
    if (n % 3 == 0)
        throw std::runtime_error("three");
    if (n % 5 == 0)
        throw n;
    return n;
}

NOINLINE static int guarded(int n)
{
    Guard guard(n);
    return fail(n) + 1;
}

NOINLINE static int through(int n)
{
    return n > 0 && n % 4 ? through(n - n % 4) + guarded(n) : guarded(n);
}

NOINLINE static int rethrows(int n)
{
    try {
        return through(n);
    } catch (int number) {
        Guard guard(number);
        throw;
    }
}

NOINLINE static int catches(int n)
{
    try {
        return rethrows(n);
    } catch (const std::exception &error) {
        return static_cast<int>(std::string(error.what()).size());
    } catch (...) {
        return fail(1);
    }
}

struct Shape {
    virtual ~Shape() = default;
    virtual int area() const = 0;
};

struct Square : Shape {
    int side;
    explicit Square(int side) : side(side) {}
    NOINLINE int area() const override { return side * side; }
};

struct Box : Shape {
    std::unique_ptr<Shape> inner;
    explicit Box(std::unique_ptr<Shape> inner) : inner(std::move(inner)) {}
    NOINLINE int area() const override { return inner->area() + 1; }
};

NOINLINE static int containers(int n)
{
    std::map<std::string, std::vector<int>> map;
    for (int at = 0; at < n; at++)
        map["key" + std::to_string(at % 3)].push_back(at * 7 % 5);
    int sum = 0;
    for (auto &[key, values] : map) {
        std::sort(values.begin(), values.end(), [](int one, int other) { return one > other; });
        sum += values.front();
    }
    std::function<int(int)> add = [&sum](int more) { return sum + more; };
    return add(1);
}

int main(int count, char **arguments)
{
    int rounds = count > 1 ? std::atoi(arguments[1]) : 3;
    for (int round = 0; round < rounds; round++) {
        for (int n = 0; n < 16; n++)
            sink += catches(n);
        std::unique_ptr<Shape> shape(new Box(std::unique_ptr<Shape>(new Square(round))));
        sink += shape->area();
        sink += containers(9);
    }
    return 0;
}
