// What tests have the client of Go do: `client ways_in`, `client write`, `client read` or `client
// member`.
package main

import (
	"log"
	"os"
)

func main() {
	switch os.Args[1] {
	case "ways_in":
		waysIn()
	case "write":
		write(os.Args[2], os.Args[3], os.Args[4])
	case "read":
		read(os.Args[2], os.Args[3], os.Args[4])
	case "member":
		member(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7])
	default:
		log.Fatalf("nothing is called %s", os.Args[1])
	}
}
