// As culprit.c. The locks are those of C code. Idle goroutines wait for a channel.
package main

// #define _GNU_SOURCE
// #include <pthread.h>
// #include <unistd.h>
// static pthread_mutex_t orders = PTHREAD_MUTEX_INITIALIZER, prices = PTHREAD_MUTEX_INITIALIZER;
// static __attribute__((noinline)) void take_orders(int us) {
//     pthread_mutex_lock(&orders);
//     if (us) usleep(us);
//     pthread_mutex_unlock(&orders);
// }
// static __attribute__((noinline)) void take_prices(int us) {
//     pthread_mutex_lock(&prices);
//     if (us) usleep(us);
//     pthread_mutex_unlock(&prices);
// }
// static void name(char *of) { pthread_setname_np(pthread_self(), of); }
import "C"

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

func main() {
	ordersTime, pricesTime := C.int(25000), C.int(1000)
	if len(os.Args) > 1 && os.Args[1] == "prices" {
		ordersTime, pricesTime = pricesTime, ordersTime
	}
	var isOver atomic.Bool
	work := make(chan int)
	var idle, threads sync.WaitGroup
	for i := 0; i < 4; i++ {
		idle.Add(1)
		go func() {
			defer idle.Done()
			runtime.LockOSThread()
			<-work
		}()
	}
	threads.Add(4)
	go func() {
		defer threads.Done()
		runtime.LockOSThread()
		C.name(C.CString("clerk"))
		for i := 0; i < 12; i++ {
			C.take_orders(ordersTime)
			C.take_prices(pricesTime)
		}
		isOver.Store(true)
	}()
	for i := 0; i < 3; i++ {
		go func() {
			defer threads.Done()
			for !isOver.Load() {
				C.take_orders(0)
				C.take_prices(0)
			}
		}()
	}
	threads.Wait()
	close(work)
	idle.Wait()
}
