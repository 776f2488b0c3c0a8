// A Go program for `cargo xtask real`: goroutines handle orders, stacks grow, the collector runs, and each call is logged.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
)

type Order struct {
	ID    int
	Name  string
	Price float64
}

//go:noinline
func handle(order *Order, worker int) int {
	return order.ID*3 + worker + len(order.Name)
}

//go:noinline
func deep(n int) int {
	var buffer [256]byte
	buffer[n%256] = byte(n)
	if n == 0 {
		return int(buffer[0])
	}
	return deep(n-1) + int(buffer[n%256])
}

func main() {
	fmt.Println("ready")
	var count int
	if _, err := fmt.Scan(&count); err != nil {
		panic(err)
	}
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	log := bufio.NewWriter(file)
	var mutex sync.Mutex
	var group sync.WaitGroup
	sum := 0
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			lines, own := "", 0
			for i := worker; i < count; i += 8 {
				order := &Order{ID: i, Name: fmt.Sprint("order ", i), Price: 1.5}
				own += handle(order, worker)
				lines += fmt.Sprintln(i, worker)
				if i%1000 < 8 {
					own += deep(2000) % 7
					runtime.GC()
				}
				if len(lines) > 4096 {
					mutex.Lock()
					log.WriteString(lines)
					mutex.Unlock()
					lines = ""
				}
			}
			mutex.Lock()
			log.WriteString(lines)
			sum += own
			mutex.Unlock()
		}(worker)
	}
	group.Wait()
	log.Flush()
	file.Close()
	fmt.Println("done", sum)
}
