// Goroutines with cgo start programs, sleep, take turns and call C. Their stacks are a few KiB.
package main

// #include <pthread.h>
// static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// static long sum;
// static long total(void) { return sum; }
// static void add(long n) {
//     pthread_mutex_lock(&mutex);
//     sum += n;
//     pthread_mutex_unlock(&mutex);
// }
import "C"

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

func each(count int, body func(i int)) {
	var group sync.WaitGroup
	for i := 0; i < count; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			body(i)
		}()
	}
	group.Wait()
}

func main() {
	each(10, func(int) {
		if err := exec.Command("/bin/true").Run(); err != nil {
			fmt.Println(err)
		}
	})
	each(100, func(i int) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for n := 0; n < 100; n++ {
			C.add(C.long(i))
		}
	})
	turns := make(chan int)
	each(4, func(i int) {
		for n := 0; n < 500; n++ {
			if i%2 == 0 {
				turns <- n
			} else {
				<-turns
			}
		}
	})
	for n := 0; n < 20; n++ {
		time.Sleep(time.Millisecond)
		runtime.GC()
	}
	fmt.Println("sum", C.total())
}
