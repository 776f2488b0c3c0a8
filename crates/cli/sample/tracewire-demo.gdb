# What `tracewire demo` looks at. GDB reads this file too.
set trace-notes tracewire demo
tvariable $big

# Every order of more than one piece, with the customer's name followed through two pointers.
trace serve if order->quantity > 1
actions
  collect worker, *order
  collect/s order->customer->name
  teval $big = $big + 1
  collect $big
end

# The same thread a little later: what the order came to.
trace tracewire-demo.c:55
actions
  collect order->id, percent, sum, takings
end

# Three instructions, one by one, where a discount is worked out for the best customers.
trace discount if order->customer && order->customer->rating > 4
actions
  collect $args
  while-stepping 3
    collect $rax, order->quantity
  end
end
