// C++ functions as an optimiser leaves them. Each call prints the function and its arguments before it is made.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

static volatile long sink;

namespace shop {

struct Item {
    long price;
    int count;
    NOINLINE Item(long price, int count) : price(price), count(count) { sink = count; }
    NOINLINE ~Item() { sink = price; }
    NOINLINE long cost(int times) const { return price * times + count; }
    long inlined_cost(int discount) const { sink = discount; return price - discount; }
};

struct Base {
    virtual ~Base() = default;
    virtual NOINLINE long area(int scale) const { sink = scale; return scale; }
};
struct Square : Base {
    long side = 3;
    NOINLINE long area(int scale) const override { sink = scale; return side * side * scale; }
};

// The first instruction belongs to an inlined member of the library.
NOINLINE long looked_up(const std::map<int, long> &prices, int key) {
    auto found = prices.find(key);
    return found == prices.end() ? -1 : found->second;
}
NOINLINE bool is_empty(const std::vector<int> &items, int otherwise) { return items.empty() && otherwise > 0; }
NOINLINE long length(const std::string &text, long start) { return (long)text.size() + start; }
NOINLINE long pushed(std::vector<long> &values, long value) { values.push_back(value); return (long)values.size(); }
NOINLINE long owned(const std::unique_ptr<long> &pointer, int bias) { return *pointer + bias; }

template <typename T> NOINLINE T largest(T one, T other) { sink = 1; return one > other ? one : other; }

// With a landing pad and a throw, which are moved away.
NOINLINE long throws(int number, long limit) {
    std::string text(number % 20, 'x');
    if (number > limit)
        throw std::runtime_error(text);
    sink = number;
    return (long)text.size();
}
NOINLINE long catches(int number, long limit) {
    sink = limit;
    try {
        std::printf("@shop::throws number=%d limit=%ld\n", number, limit);
        return throws(number, limit);
    } catch (const std::runtime_error &error) {
        return error.what()[0];
    }
}

namespace {
NOINLINE int hidden(int number, int other) { sink = other; return number - other; }
} // namespace

inline __attribute__((always_inline)) long clamped(long number, long low) { sink = low; return number < low ? low : number; }
NOINLINE long first_is_inlined(long amount, long floor) { return clamped(amount, floor) + 1; }

} // namespace shop

NOINLINE long applied(const std::function<long(int)> &function, int number) { return function(number); }

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
    std::map<int, long> prices{{1, 10}, {3, 30}, {5, 50}};
    std::vector<int> items;
    std::vector<long> values;
    auto pointer = std::make_unique<long>(41);
    std::unique_ptr<shop::Base> shapes[2] = {std::make_unique<shop::Base>(), std::make_unique<shop::Square>()};
    long sum = 0;
    for (int i = 0; i < rounds; i++) {
        std::printf("@shop::Item::Item price=%d count=%d\n", i * 10, i);
        std::unique_ptr<shop::Item> item(new shop::Item(i * 10, i));
        std::printf("@shop::Item::cost this=%p times=%d\n", (void *)item.get(), i + 2);
        sum += item->cost(i + 2);
        std::printf("@shop::Item::inlined_cost this=%p discount=%d\n", (void *)item.get(), i);
        sum += item->inlined_cost(i);
        std::printf("@shop::Item::~Item this=%p\n", (void *)item.get());
        item.reset();
        shop::Base *shape = shapes[i % 2].get();
        std::printf("@shop::%s::area this=%p scale=%d\n", i % 2 ? "Square" : "Base", (void *)shape, i);
        sum += shape->area(i);
        std::printf("@shop::looked_up key=%d\n", i % 7);
        sum += shop::looked_up(prices, i % 7);
        std::printf("@shop::is_empty otherwise=%d\n", i);
        sum += shop::is_empty(items, i);
        std::printf("@shop::length start=%d\n", i * 2);
        sum += shop::length(argv[0], i * 2);
        std::printf("@shop::pushed value=%d\n", i * 3);
        sum += shop::pushed(values, i * 3);
        std::printf("@shop::owned bias=%d\n", i - 4);
        sum += shop::owned(pointer, i - 4);
        std::printf("@shop::largest<int> one=%d other=%d\n", i, 4);
        sum += shop::largest(i, 4);
        std::printf("@shop::largest<double> one=%g other=%g\n", i * 0.5, 1.25);
        sum += (long)shop::largest(i * 0.5, 1.25);
        std::printf("@shop::catches number=%d limit=%d\n", i, 5);
        sum += shop::catches(i, 5);
        std::printf("@hidden number=%d other=%d\n", i, i + 1);
        sum += shop::hidden(i, i + 1);
        std::printf("@shop::clamped number=%d low=%d\n", i, 3);
        sum += shop::clamped(i, 3);
        std::printf("@shop::first_is_inlined amount=%d floor=%d\n@shop::clamped number=%d low=%d\n", i * 5, 6, i * 5, 6);
        sum += shop::first_is_inlined(i * 5, 6);
        std::printf("@applied number=%d\n", i);
        sum += applied([&](int number) { return number + sum % 3; }, i);
    }
    std::printf("%ld\n", sum);
}
