// Calls of goroutines, and what each of them does: a line for each entry and end, as the other programs have them, with the number of
// the goroutine in place of the thread's.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

var sink int
var output sync.Mutex

// A goroutine's log.
type Log struct {
	number string
	text   bytes.Buffer
}

func begin() *Log {
	var buffer [64]byte
	words := strings.Fields(string(buffer[:runtime.Stack(buffer[:], false)]))
	return &Log{number: words[1]}
}

func (log *Log) note(kind, name string, number int) {
	fmt.Fprintf(&log.text, "%s %s %s %d\n", log.number, kind, name, number)
}

func (log *Log) end() {
	output.Lock()
	os.Stdout.Write(log.text.Bytes())
	output.Unlock()
}

// Its frames need more than the first stack of a goroutine has: the stack moves while the calls are open.
//
//go:noinline
func t_deep(log *Log, n int) int {
	log.note("E", "t_deep", n)
	var room [64]int
	room[n%64] = n
	result := n
	if n > 0 {
		result = t_deep(log, n-1) + room[n%64]
	}
	log.note("R", "t_deep", result)
	return result
}

// The collector makes a stack smaller that is mostly unused.
//
//go:noinline
func t_collect(log *Log, n int) int {
	log.note("E", "t_collect", n)
	runtime.GC()
	log.note("R", "t_collect", n)
	return n
}

// It may go on in another thread.
//
//go:noinline
func t_yield(log *Log, n int) int {
	log.note("E", "t_yield", n)
	for turn := 0; turn < 3; turn++ {
		runtime.Gosched()
	}
	log.note("R", "t_yield", n*2)
	return n * 2
}

//go:noinline
func t_send(log *Log, n int, channel chan int) int {
	log.note("E", "t_send", n)
	channel <- n
	log.note("R", "t_send", n+1)
	return n + 1
}

//go:noinline
func t_receive(log *Log, n int, channel chan int) int {
	log.note("E", "t_receive", n)
	value := <-channel
	log.note("R", "t_receive", value)
	return value
}

//go:noinline
func t_pair(log *Log, n int) (int, string) {
	log.note("E", "t_pair", n)
	log.note("R", "t_pair", n)
	return n, strconv.Itoa(n)
}

//go:noinline
func t_panic(log *Log, n int) int {
	log.note("E", "t_panic", n)
	if n == 0 {
		panic("left")
	}
	result := t_panic(log, n-1) + 1
	log.note("R", "t_panic", result)
	return result
}

//go:noinline
func t_deferred(log *Log, n int) int {
	log.note("E", "t_deferred", n)
	log.note("R", "t_deferred", n)
	return n
}

//go:noinline
func t_recover(log *Log, n int) (result int) {
	log.note("E", "t_recover", n)
	defer func() {
		if recover() != nil {
			log.note("X", "t_recover", n)
			result = -n
			log.note("R", "t_recover", -n)
		}
	}()
	result = t_panic(log, n)
	log.note("R", "t_recover", result)
	return result
}

// A deferred function is called where nothing is left, too.
//
//go:noinline
func t_defers(log *Log, n int) int {
	log.note("E", "t_defers", n)
	for turn := 0; turn < 2; turn++ {
		defer func() {}()
	}
	result := t_deferred(log, n) + 1
	log.note("R", "t_defers", result)
	return result
}

//go:noinline
func t_goexit(log *Log, n int) int {
	log.note("E", "t_goexit", n)
	if n == 0 {
		log.note("D", "t_goexit", 0)
		log.end()
		runtime.Goexit()
	}
	return t_goexit(log, n-1) + 1
}

type Number struct{ value int }

//go:noinline
func (number *Number) t_method(log *Log, n int) int {
	log.note("E", "t_method", n)
	result := number.value + t_yield(log, n)
	log.note("R", "t_method", result)
	return result
}

//go:noinline
func t_exit(log *Log, n int) int {
	log.note("E", "t_exit", n)
	if n == 0 {
		log.note("P", "t_exit", 0)
		log.end()
		os.Exit(0)
	}
	return t_exit(log, n-1)
}

func work(round int, group *sync.WaitGroup, channel chan int) {
	defer group.Done()
	log := begin()
	sum := t_deep(log, round*40%300) + t_yield(log, round) + t_collect(log, round)
	sum += t_send(log, round, channel)
	value, text := t_pair(log, round)
	sum += value + len(text) + t_recover(log, round%5) + t_defers(log, round)
	sum += (&Number{round}).t_method(log, round)
	log.end()
	sink = sum
}

func receive(round int, group *sync.WaitGroup, channel chan int) {
	defer group.Done()
	log := begin()
	t_receive(log, round, channel)
	log.end()
}

func leave(round int, group *sync.WaitGroup) {
	defer group.Done()
	t_goexit(begin(), round%4)
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	for round := 0; round < rounds; round++ {
		var group sync.WaitGroup
		for goroutine := 0; goroutine < 6; goroutine++ {
			channel := make(chan int)
			group.Add(3)
			go work(round+goroutine, &group, channel)
			go receive(round+goroutine, &group, channel)
			go leave(round+goroutine, &group)
		}
		group.Wait()
	}
	t_exit(begin(), 3)
}
