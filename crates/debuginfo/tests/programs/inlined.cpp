// Functions that begin with inlined copies of others, as most small functions of C++ do.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

static volatile long sink;

namespace shop {

template <typename T> inline __attribute__((always_inline)) T keep(T dummy) {
    sink = (long)dummy;
    return dummy;
}

struct Cart {
    std::vector<int> items;
    long limit;

    __attribute__((noinline)) bool same(const Cart &other) const { return items.size() == other.items.size() && limit == other.limit; }
    __attribute__((noinline)) int first(int otherwise) const { return items.empty() ? otherwise : items.front(); }
    __attribute__((noinline)) long kept(long amount, int times) {
        limit = keep(amount) + times;
        return limit;
    }
    Cart(long limit, int count) : items(count, 3), limit(limit) {}
};

template <typename T> __attribute__((noinline)) T largest(std::vector<T> &values, T at_least) {
    for (T &value : values)
        if (value > at_least)
            at_least = value;
    return at_least;
}

__attribute__((noinline)) long counted(const std::string &text, long start) { return (long)text.size() + start; }

__attribute__((noinline)) long owned(std::unique_ptr<long> &pointer, short bias) { return *pointer + bias; }

} // namespace shop

static __attribute__((noinline)) int local_function(int number, const char *why) {
    shop::keep(number);
    return number + why[0];
}

int main() {
    shop::Cart cart(50, 4), other(51, 4);
    std::vector<int> numbers{3, 9, 4};
    std::vector<double> ratios{0.5, 2.5};
    std::string text = "some text";
    auto pointer = std::make_unique<long>(41);
    long sum = 0;
    for (int i = 1; i < 6; i++) {
        sum += cart.same(other) + cart.first(i) + cart.kept(i * 10, i);
        sum += shop::largest(numbers, i) + (long)shop::largest(ratios, 0.25 * i);
        sum += shop::counted(text, i) + shop::owned(pointer, (short)i);
        sum += local_function(i, "why");
    }
    std::printf("%ld\n", sum);
}
