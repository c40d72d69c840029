// Goroutines without libc take turns and start programs. Their threads have no thread-local storage of glibc's.
package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
)

func main() {
	turns := make(chan int)
	sum := 0
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(2)
		go func() {
			defer group.Done()
			runtime.LockOSThread()
			for n := 0; n < 200; n++ {
				turns <- n
			}
		}()
		go func() {
			defer group.Done()
			if err := exec.Command("/bin/true").Run(); err != nil {
				fmt.Println(err)
			}
		}()
	}
	for n := 0; n < 800; n++ {
		sum += <-turns
	}
	group.Wait()
	fmt.Println("sum", sum)
}
