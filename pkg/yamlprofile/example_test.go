package yamlprofile_test

import (
	"fmt"

	"github.com/rigward/rigward/pkg/yamlprofile"
)

// Values keep their places; what the profile forbids is an error with one.
func ExampleParse() {
	doc, err := yamlprofile.Parse([]byte("name: rigs\nseats: [a, b]\n"), yamlprofile.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	seats := doc.Get("seats")
	fmt.Println(doc.Get("name").Value, len(seats.Items), seats.Line, seats.Col)

	_, err = yamlprofile.Parse([]byte("name: x\nname: y\n"), yamlprofile.Limits{})
	fmt.Println(err)
	// Output:
	// rigs 2 2 8
	// 2:1: key "name" is here a second time, first on line 1
}
