# Threads with a queue, a mutex and a condition variable.
queue, done, mutex, sum = Queue.new, ConditionVariable.new, Mutex.new, 0
workers = 4.times.map do
  Thread.new do
    while (n = queue.pop) != :end
      mutex.synchronize do
        sum += n
        done.signal if sum == 500_500
      end
    end
  end
end
1000.times do |i|
  queue << i + 1
  Thread.pass if i % 50 == 0
end
mutex.synchronize { done.wait(mutex) until sum == 500_500 }
4.times { queue << :end }
workers.each(&:join)
puts sum, Thread.new { sleep 0.01; :slept }.value
