//! A minimal executor: one thread, its own tasks, and a queue of the tasks that are ready.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;

struct Ready {
    queue: Mutex<VecDeque<usize>>,
    thread: Thread,
}

struct Task {
    ready: Arc<Ready>,
    number: usize,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut queue = self.ready.queue.lock().expect("no thread panics with the queue");
        queue.push_back(self.number);
        let was_idle = queue.len() == 1;
        drop(queue);
        if was_idle {
            self.ready.thread.unpark();
        }
    }
}

/// Runs all tasks to their end on the calling thread.
pub fn run<F: Future<Output = ()>>(tasks: impl Iterator<Item = F>) {
    let mut tasks: Vec<Option<Pin<Box<F>>>> = tasks.map(|task| Some(Box::pin(task))).collect();
    let queue = Mutex::new((0..tasks.len()).collect());
    let ready = Arc::new(Ready { queue, thread: std::thread::current() });
    let waker = |number| Waker::from(Arc::new(Task { ready: ready.clone(), number }));
    let wakers: Vec<Waker> = (0..tasks.len()).map(waker).collect();
    let mut left = tasks.len();
    while left > 0 {
        let next = ready.queue.lock().expect("no thread panics with the queue").pop_front();
        let Some(number) = next else {
            std::thread::park();
            continue;
        };
        // A task that has ended may have been woken once more.
        let Some(task) = &mut tasks[number] else { continue };
        if task.as_mut().poll(&mut Context::from_waker(&wakers[number])).is_ready() {
            tasks[number] = None;
            left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::Duration;

    #[test]
    fn tasks_that_wait_are_polled_again_when_they_are_woken_and_all_run_to_their_end() {
        let polls = AtomicUsize::new(0);
        let task = |rounds: usize| {
            let polls = &polls;
            let mut left = rounds;
            poll_fn(move |context| {
                polls.fetch_add(1, Ordering::Relaxed);
                if left == 0 {
                    return Poll::Ready(());
                }
                left -= 1;
                let waker = context.waker().clone();
                // The waker is called twice from another thread, most likely while this one is parked.
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(1));
                    waker.wake_by_ref();
                    waker.wake();
                });
                Poll::Pending
            })
        };
        run([task(0), task(3), task(5)].into_iter());
        assert!(polls.load(Ordering::Relaxed) >= 11);
    }
}
