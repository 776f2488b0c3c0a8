#include <stdint.h>
__attribute__((noinline)) uint64_t plugin_step(uint64_t value) { return value * 7; }
uint64_t plugin_work(uint64_t value) { return plugin_step(value) + 5; }
