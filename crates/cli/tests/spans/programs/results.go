// Functions of all kinds of results: each is printed as Go writes it.
package main

import (
	"errors"
	"fmt"
)

type Point struct {
	X, Y int32
	Name string
}
type Big struct{ Values [3]int }
type Mixed struct {
	A bool
	B float64
	C int16
}

//go:noinline
func r_int8(n int) int8 { return int8(-n) }

//go:noinline
func r_float(n int) float32 { return float32(n) + 0.5 }

//go:noinline
func r_string(n int) string { return fmt.Sprint("text ", n) }

//go:noinline
func r_slice(n int) []int { return []int{n, n + 1, n + 2} }

//go:noinline
func r_point(n int) Point { return Point{int32(n), int32(-n), "point"} }

//go:noinline
func r_big(n int) Big { return Big{[3]int{n, 2 * n, 3 * n}} }

//go:noinline
func r_mixed(n int) Mixed { return Mixed{n > 1, float64(n) * 1.5, int16(n)} }

//go:noinline
func r_error(n int) (int, error) {
	if n > 2 {
		return 0, errors.New("too many")
	}
	return n, nil
}

//go:noinline
func r_named(n int) (count uint8, ratio float64, big Big, ok bool) {
	return uint8(n), float64(n) / 2, Big{[3]int{n, n, n}}, true
}

//go:noinline
func r_complex(n int) complex128 { return complex(float64(n), -1) }

//go:noinline
func r_stacked(array [2]int32, n int) (Big, int) { return Big{[3]int{n, n, int(array[1])}}, n }

//go:noinline
func r_many(n int) (a, b, c, d, e, f, g, h, i, j int) { return n, 2, 3, 4, 5, 6, 7, 8, 9, n + 9 }

//go:noinline
func r_map(n int) map[string]int { return map[string]int{"one": n} }

//go:noinline
func r_pointer(n int) *Point { return &Point{int32(n), 0, "there"} }

func main() {
	for n := 1; n < 4; n++ {
		fmt.Printf("r_int8 %+v\n", r_int8(n))
		fmt.Printf("r_float %+v\n", r_float(n))
		fmt.Printf("r_string %+v\n", r_string(n))
		fmt.Printf("r_slice %+v\n", r_slice(n))
		fmt.Printf("r_point %+v\n", r_point(n))
		fmt.Printf("r_big %+v\n", r_big(n))
		fmt.Printf("r_mixed %+v\n", r_mixed(n))
		count, err := r_error(n)
		fmt.Printf("r_error {r0:%v r1:%v}\n", count, err)
		number, ratio, big, ok := r_named(n)
		fmt.Printf("r_named {count:%v ratio:%v big:%+v ok:%v}\n", number, ratio, big, ok)
		fmt.Printf("r_complex %v\n", r_complex(n))
		first, second := r_stacked([2]int32{7, 8}, n)
		fmt.Printf("r_stacked {r0:%+v r1:%v}\n", first, second)
		a, b, c, d, e, f, g, h, i, j := r_many(n)
		fmt.Printf("r_many {a:%v b:%v c:%v d:%v e:%v f:%v g:%v h:%v i:%v j:%v}\n", a, b, c, d, e, f, g, h, i, j)
		fmt.Printf("r_map %v\n", r_map(n))
		fmt.Printf("r_pointer %+v\n", r_pointer(n))
	}
}
