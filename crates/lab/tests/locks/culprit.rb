# As culprit.c, with what Ruby has.
$orders, $prices, $work = Mutex.new, Mutex.new, Queue.new
$is_over = false

def take_orders(time) = $orders.synchronize { sleep(time) if time > 0 }
def take_prices(time) = $prices.synchronize { sleep(time) if time > 0 }

orders_time, prices_time = ARGV == ["prices"] ? [0.001, 0.025] : [0.025, 0.001]
idle = 4.times.map { Thread.new { $work.pop } }
clerk = Thread.new do
  Thread.current.name = "clerk"
  13.times do
    take_orders(orders_time)
    take_prices(prices_time)
  end
  $is_over = true
end
buyers = 3.times.map do
  Thread.new do
    until $is_over
      take_orders(0)
      take_prices(0)
      sleep(0.001)
    end
  end
end
[clerk, *buyers].each(&:join)
4.times { $work.push(1) }
idle.each(&:join)
