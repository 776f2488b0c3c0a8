// A C++ program for `cargo xtask real`: it prices orders and keeps a log of its own calls.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace shop {

struct Order {
  long id;
  int quantity;
  std::string name;
};

class Cart {
public:
  __attribute__((noinline)) long total(const Order &order, long discount);

private:
  std::map<std::string, long> totals_;
  std::vector<std::unique_ptr<Order>> history_;
};

long Cart::total(const Order &order, long discount) {
  long &sum = totals_[order.name];
  sum += order.quantity * 3 - discount;
  if (history_.size() < 100) {
    history_.push_back(std::make_unique<Order>(order));
  }
  if (order.quantity == 13) {
    throw std::runtime_error("unlucky " + order.name);
  }
  return sum;
}

} // namespace shop

int main(int argc, char **argv) {
  if (argc < 2) {
    return 2;
  }
  std::cout << "ready" << std::endl;
  long count = 0;
  std::cin >> count;
  shop::Cart cart;
  std::ofstream log(argv[1]);
  unsigned long sum = 0;
  long thrown = 0;
  for (long i = 0; i < count; i++) {
    const shop::Order order{i, static_cast<int>(i % 50), "customer " + std::to_string(i % 7)};
    log << order.id << ' ' << order.quantity << ' ' << i % 5 << '\n';
    try {
      sum += static_cast<unsigned long>(cart.total(order, i % 5));
    } catch (const std::runtime_error &) {
      thrown++;
    }
  }
  log.close();
  std::cout << "done " << sum << ' ' << thrown << std::endl;
  return 0;
}
