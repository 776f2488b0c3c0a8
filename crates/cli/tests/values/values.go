// Shows values of many types to functions of their own, each of which prints its argument with %+v, after the line that it is in.
package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
)

type Point struct{ X, Y int }

type Item struct {
	ID   int
	Name string
	Tags []string
}

type Node struct {
	Value int
	Next  *Node
}

type Shape interface{ Area() float64 }

type Circle struct{ R float64 }

func (c Circle) Area() float64 { return math.Pi * c.R * c.R }

type Box struct {
	W, H float64
	Name string
}

func (b *Box) Area() float64 { return b.W * b.H }

type Request struct {
	Path    string
	Parts   []int
	Headers map[string]int
	Item    Item
	Any     interface{}
	Err     error
	Wait    time.Duration
}

type Embedded struct {
	Point
	Flag bool
	Raw  [3]byte
}

type Celsius float64
type Names []string
type Weekday int

var out = os.Stdout

func show(value interface{}) {
	_, _, line, _ := runtime.Caller(2)
	fmt.Fprintf(out, "%d\t%+v\n", line, value)
}

//go:noinline
func seeString(value string) { show(value) }

//go:noinline
func seeInt(value int) { show(value) }

//go:noinline
func seeInt8(value int8) { show(value) }

//go:noinline
func seeUint8(value uint8) { show(value) }

//go:noinline
func seeUint16(value uint16) { show(value) }

//go:noinline
func seeRune(value rune) { show(value) }

//go:noinline
func seeUint64(value uint64) { show(value) }

//go:noinline
func seeBool(value bool) { show(value) }

//go:noinline
func seeFloat64(value float64) { show(value) }

//go:noinline
func seeFloat32(value float32) { show(value) }

//go:noinline
func seeComplex(value complex128) { show(value) }

//go:noinline
func seeCelsius(value Celsius) { show(value) }

//go:noinline
func seeWeekday(value Weekday) { show(value) }

//go:noinline
func seeDuration(value time.Duration) { show(value) }

//go:noinline
func seeInts(value []int) { show(value) }

//go:noinline
func seeBytes(value []byte) { show(value) }

//go:noinline
func seeFloats(value []float64) { show(value) }

//go:noinline
func seeBools(value []bool) { show(value) }

//go:noinline
func seeStrings(value []string) { show(value) }

//go:noinline
func seeNames(value Names) { show(value) }

//go:noinline
func seePoints(value []Point) { show(value) }

//go:noinline
func seeItems(value []Item) { show(value) }

//go:noinline
func seeNested(value [][]int) { show(value) }

//go:noinline
func seeArray(value [3]int) { show(value) }

//go:noinline
func seeStringArray(value [2]string) { show(value) }

//go:noinline
func seePoint(value Point) { show(value) }

//go:noinline
func seeItem(value Item) { show(value) }

//go:noinline
func seeEmbedded(value Embedded) { show(value) }

//go:noinline
func seeItemPointer(value *Item) { show(value) }

//go:noinline
func seeNode(value *Node) { show(value) }

//go:noinline
func seeIntPointer(value *int) { show(value) }

//go:noinline
func seeMap(value map[string]int) { show(value) }

//go:noinline
func seeIntMap(value map[int]string) { show(value) }

//go:noinline
func seeFloatMap(value map[float64]bool) { show(value) }

//go:noinline
func seeSet(value map[string]struct{}) { show(value) }

//go:noinline
func seeMapOfSlices(value map[string][]int) { show(value) }

//go:noinline
func seeMapOfMaps(value map[int]map[string]int) { show(value) }

//go:noinline
func seeMapOfItems(value map[uint8]Item) { show(value) }

//go:noinline
func seeAny(value interface{}) { show(value) }

//go:noinline
func seeCircle(value Circle) { show(value) }

//go:noinline
func seeShape(value Shape) { show(value) }

//go:noinline
func seeError(value error) { show(value) }

//go:noinline
func seeRequest(value Request) { show(value) }

//go:noinline
func seeRequestPointer(value *Request) { show(value) }

//go:noinline
func seeAnys(value []interface{}) { show(value) }

//go:noinline
func seeErrors(value []error) { show(value) }

//go:noinline
func total(name string, parts []int, headers map[string]int, item *Item, limit int, err error) int {
	fmt.Fprintf(out, "%+v|%+v|%+v|%+v|%+v|%+v\n", name, parts, headers, item, limit, err)
	return len(name) + len(parts)
}

func main() {
	if len(os.Args) > 1 {
		for i := 0; i < 3; i++ {
			total(fmt.Sprint("name ", i), []int{i, 2}, map[string]int{"a": i, "b": 2}, &Item{i, "item", nil}, i*7, errors.New("e"))
		}
		return
	}
	for i := 0; i < 3; i++ {
		n := fmt.Sprint(i)
		seeString("")
		seeString("/item/" + n)
		seeString("héllo € " + n)
		seeString(strings.Repeat("z", 199+i))
		seeInt(i - 1)
		seeInt8(int8(-i))
		seeUint8(uint8('a' + i))
		seeUint16(uint16(65533 + i))
		seeRune('é')
		seeUint64(math.MaxUint64 - uint64(i))
		seeBool(i == 1)
		seeFloat64(float64(i) * 1.25)
		seeFloat64(1e21 + float64(i))
		seeFloat64(1234567.5 * float64(i))
		seeFloat64(0.00001234)
		seeFloat64(math.Inf(1 - i%2*2))
		seeFloat32(float32(i) * 0.1)
		seeComplex(complex(float64(i), -2.5))
		seeCelsius(Celsius(36.6 + float64(i)))
		seeWeekday(Weekday(i))
		seeDuration(time.Duration(i) * 1500 * time.Millisecond)
		seeDuration(-3*time.Hour - 20*time.Minute)
		seeDuration(time.Duration(1200 + i))
		seeInts(nil)
		seeInts([]int{1, 2, i})
		seeInts(make([]int, 30+i))
		seeBytes([]byte{0, 255, byte(i)})
		seeFloats([]float64{0.5, float64(i) * 1.25})
		seeBools([]bool{true, i == 0})
		seeStrings([]string{"x", "a string that is rather long for a string", n})
		seeNames(Names{"n1", n})
		seePoints([]Point{{1, 2}, {i, 4}})
		seeItems([]Item{{1, "one", []string{"a", "b"}}, {i, n, nil}})
		seeNested([][]int{{}, {1}, {2, i}})
		seeArray([3]int{1, 2, i})
		seeStringArray([2]string{"first", n})
		seePoint(Point{i, -i})
		seeItem(Item{i, "item " + n, []string{"x", "y"}})
		seeEmbedded(Embedded{Point{i, 2}, i == 2, [3]byte{1, 2, byte(i)}})
		seeItemPointer(&Item{i, "pointed at", []string{"t" + n}})
		seeItemPointer(nil)
		seeNode(&Node{i, &Node{2, nil}})
		seeIntPointer(&i)
		seeIntPointer(nil)
		seeMap(nil)
		seeMap(map[string]int{})
		seeMap(map[string]int{"b": 1, "a": i, "ccc": -3})
		large := map[int]string{}
		for k := 0; k < 9*i+3; k++ {
			large[k*7%101] = fmt.Sprint("v", k)
		}
		seeIntMap(large)
		grown := map[string]int{}
		for k := 0; k < 14+13*i; k++ {
			grown[fmt.Sprint("key", k)] = k
		}
		seeMap(grown)
		seeFloatMap(map[float64]bool{1.5: true, -2: false})
		seeSet(map[string]struct{}{"only": {}, n: {}})
		seeMapOfSlices(map[string][]int{"k": {1, i}, "l": nil})
		seeMapOfMaps(map[int]map[string]int{1: {"x": i}, 2: nil})
		seeMapOfItems(map[uint8]Item{3: {i, n, []string{"t"}}})
		seeAny(nil)
		seeAny(i)
		seeAny("text " + n)
		seeAny(Item{i, "in an interface", []string{"a"}})
		seeAny(&Item{i, "pointed at", nil})
		seeAny([]string{"s", n})
		seeAny(2.5)
		seeCircle(Circle{float64(i) / 4})
		seeShape(Circle{float64(i)})
		seeShape(&Box{1, float64(i), "box " + n})
		seeError(nil)
		seeError(errors.New("it failed " + n))
		seeError(fmt.Errorf("wrapped: %w", errors.New("cause "+n)))
		seeRequest(Request{"/item/" + n, []int{1, i}, map[string]int{"host": i}, Item{i, "inner", []string{"deep", n}}, "any", errors.New("bad"), time.Second})
		seeRequestPointer(&Request{Path: n, Any: i, Wait: 5 * time.Millisecond})
		seeAnys([]interface{}{1, "two", nil, 3.5})
		seeErrors([]error{errors.New("one"), nil})
	}
}
